"""Wrappers around pandas' own functions: the same result and the same warnings, and a rule that looks on."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from clew.capture.frames.calls import Call, failed
from clew.capture.frames.chained import warns_in_place, warns_on_assignment
from clew.capture.guard import guard
from clew.capture.losses import count_loss

if TYPE_CHECKING:
    from types import CodeType, FrameType, FunctionType

Rule = Callable[[Call], None]
Before = Callable[[Any], Any]
Prepare = Callable[[Call], tuple[tuple[Any, ...], dict[str, Any]]]

# pandas blames warnings on the first frame outside its own folder: the wrappers must seem to be inside. Where it counts
# frames instead (the deprecation of `inplace`), the warning is still given, but located here.
_SEEMING_FILE = str(Path(pd.__file__).parent / "_clew.py")
# pandas 2 asks whether a method that `apply` is given by its name takes an axis.
_ASKS_FOR_AXIS = pd.__version__.startswith("2.")
_installed: list[tuple[Any, str, Any, bool]] = []
_clock = time.perf_counter
_caller = sys._getframe


def nothing(_: Any) -> None:
    """No state is needed before the call."""


class Hook(NamedTuple):
    """A function of pandas and what is done around it."""

    original: Callable[..., Any]
    name: str
    rule: Rule
    before: Before = nothing
    prepare: Prepare | None = None
    is_function: bool = False


def hook_method(owner: Any, name: str, rule: Rule, before: Before = nothing, prepare: Prepare | None = None) -> None:
    """Let `rule` look on at every call of the user to a method."""
    original = getattr(owner, name)
    hook = Hook(original, name, rule, before, prepare)

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            # Without names there is no mapping to copy.
            return original(self, *args, **kwargs) if kwargs else original(self, *args)
        return _observed(hook, (self, *args), kwargs, _caller(1))

    _install(owner, name, wrapper, original)


def hook_axis(owner: Any, name: str, rule: Rule, before: Before) -> None:
    """Like `hook_method`, for what pandas does to an axis of every other frame that it makes."""
    original = getattr(owner, name)
    hook = Hook(original, name, rule, before)

    def wrapper(self: Any, axis: Any, labels: Any) -> Any:
        if guard.depth:
            return original(self, axis, labels)
        return _observed(hook, (self, axis, labels), {}, _caller(1))

    _install(owner, name, wrapper, original)


def hook_in_place(owner: Any, name: str, rule: Rule, before: Before, prepare: Prepare | None = None) -> None:
    """Like `hook_method`, for methods that warn when they change a temporary object."""
    original = getattr(owner, name)
    hook = Hook(original, name, rule, before, prepare)
    is_update = name == "update"

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return original(self, *args, **kwargs)
        if is_update or kwargs.get("inplace"):
            warns_in_place(sys.getrefcount(self), self, _caller(1), is_update=is_update)
        return _observed(hook, (self, *args), kwargs, _caller(1))

    _install(owner, name, wrapper, original)


def hook_setitem(owner: Any, rule: Rule, before: Before, prepare: Prepare | None = None) -> None:
    """Like `hook_method`, for `obj[key] = value` and its warning about chained assignment."""
    original = owner.__setitem__
    hook = Hook(original, "__setitem__", rule, before, prepare)
    # There is nothing to prepare where the key is a name.
    by_name = hook._replace(prepare=None)

    def wrapper(self: Any, key: Any, value: Any) -> None:
        if guard.depth:
            original(self, key, value)
            return
        frame = _caller(1)
        warns_on_assignment(sys.getrefcount(self), self, frame)
        _observed(by_name if key.__class__ is str else hook, (self, key, value), {}, frame)

    _install(owner, "__setitem__", wrapper, original)


def hook_item(owner: Any, rule: Rule) -> None:
    """Like `hook_method`, for `obj[key]`: pandas itself reads so often that what stands between must be little."""
    original = owner.__getitem__
    hook = Hook(original, "__getitem__", rule)

    def wrapper(self: Any, key: Any) -> Any:
        if guard.depth:
            return original(self, key)
        return _observed(hook, (self, key), {}, _caller(1))

    _install(owner, "__getitem__", wrapper, original)


def hook_levelled(owner: Any, name: str, rule: Rule, before: Before) -> None:
    """Like `hook_method`, for methods that look up the caller's variables by stack level."""
    original = getattr(owner, name)
    hook = Hook(original, name, rule, before)

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return original(self, *args, **{**kwargs, "level": kwargs.get("level", 0) + 1})
        # Two frames of ours stand between pandas and the caller: this one and `_observed`.
        kwargs = {**kwargs, "level": kwargs.get("level", 0) + 2}
        return _observed(hook, (self, *args), kwargs, _caller(1))

    _install(owner, name, wrapper, original)


def hook_function(module: Any, name: str, rule: Rule, prepare: Prepare | None = None) -> None:
    """Let `rule` look on at every call of the user to a function of a module."""
    original = getattr(module, name)
    hook = Hook(original, name, rule, nothing, prepare, is_function=True)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return original(*args, **kwargs) if kwargs else original(*args)
        return _observed(hook, args, kwargs, _caller(1))

    _install(module, name, wrapper, original)


def hook_classmethod(owner: Any, name: str, rule: Rule) -> None:
    """Let `rule` look on at every call of the user to a class method."""
    original = owner.__dict__[name]
    function = original.__func__
    hook = Hook(function, name, rule)

    def wrapper(cls: type, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return function(cls, *args, **kwargs)
        return _observed(hook, (cls, *args), kwargs, _caller(1))

    functools.update_wrapper(wrapper, function)
    disguise(wrapper)
    _replace(owner, name, classmethod(wrapper), original)


def hook_getter(owner: Any, name: str, rule: Rule) -> None:
    """Let `rule` look on at every reading of a property by the user."""
    original = owner.__dict__.get(name) or getattr(owner, name)
    read = original.fget
    hook = Hook(read, name, rule)

    def getter(self: Any) -> Any:
        if guard.depth:
            return read(self)
        return _observed(hook, (self,), {}, _caller(1))

    disguise(getter)
    _replace(owner, name, property(getter, original.fset, original.fdel, original.__doc__), original)


def _observed(hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType) -> Any:
    original, name, rule, before, prepare, is_function = hook
    guard.depth = 1
    try:
        if is_function:
            call = Call(name, None, args, kwargs, None, frame, is_function)
        else:
            call = Call(name, args[0], args[1:], kwargs, None, frame)
        if before is not nothing:
            try:
                call.before = before(args[0])
            except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
                count_loss(name, error)
        if prepare is not None:
            args, kwargs = _prepared(hook, call, args, kwargs)
        call.started = _clock()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            failed(call, error)
            raise
        call.ended = _clock()
        call.result = result
        try:
            rule(call)
        except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
            count_loss(name, error)
        return result
    finally:
        guard.depth = 0


def _prepared(
    hook: Hook, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with which pandas is called, where a rule must be among them to see."""
    try:
        prepared, kwargs = hook.prepare(call)  # type: ignore[misc]
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        count_loss(hook.name, error)
        return args, kwargs
    if hook.is_function:
        call.args, call.kwargs = prepared, kwargs
        return prepared, kwargs
    return (args[0], *prepared), kwargs


def disguise(function: Any) -> None:
    """Let a function of ours seem to be one of pandas' own."""
    function.__code__ = _disguised(function.__code__)


# Once for all wrappers of a kind: the interpreter learns how to run code fast while it runs, for each code anew.
@functools.cache
def _disguised(code: CodeType) -> CodeType:
    return code.replace(co_filename=_SEEMING_FILE)


disguise(_observed)


def _install(owner: Any, name: str, wrapper: Any, original: Any) -> None:
    functools.update_wrapper(wrapper, original)
    if _ASKS_FOR_AXIS and inspect.isfunction(original) and "axis" in original.__code__.co_varnames:
        wrapper.__signature__ = inspect.signature(original)
    disguise(wrapper)
    _replace(owner, name, wrapper, original)


def _replace(owner: Any, name: str, replacement: Any, original: Any) -> None:
    _installed.append((owner, name, original, name in vars(owner)))
    setattr(owner, name, replacement)


def replace(owner: Any, name: str, replacement: FunctionType | Any) -> None:
    """Put a hand-made wrapper in place, so that it is taken out with the others."""
    original = vars(owner).get(name) or getattr(owner, name)
    if hasattr(replacement, "__code__"):
        disguise(replacement)
    _replace(owner, name, replacement, original)


def remove_all() -> None:
    """Take every wrapper out again."""
    while _installed:
        owner, name, original, was_own = _installed.pop()
        if was_own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)


def is_installed() -> bool:
    """Whether the wrappers are in place."""
    return bool(_installed)
