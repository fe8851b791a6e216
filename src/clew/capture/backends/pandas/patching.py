"""Patches of pandas methods, properties and indexers; chained-assignment warnings."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from pandas.errors import ChainedAssignmentError

from clew.capture.backends.pandas.call import Call, record_failure
from clew.capture.diagnostics import record_error
from clew.capture.introspection.user_code import guard

if TYPE_CHECKING:
    from types import CodeType, FrameType, FunctionType


_IS_COPY_ON_WRITE = int(pd.__version__.partition(".")[0]) >= 3

if _IS_COPY_ON_WRITE:
    from pandas.compat._constants import REF_COUNT, REF_COUNT_IDX, REF_COUNT_METHOD
    from pandas.errors.cow import (
        _chained_assignment_method_msg,
        _chained_assignment_method_update_msg,
        _chained_assignment_msg,
    )
else:
    from pandas._config import using_copy_on_write
    from pandas.compat._constants import REF_COUNT as REF_COUNT_METHOD
    from pandas.errors import (
        _chained_assignment_method_msg,
        _chained_assignment_msg,
        _chained_assignment_warning_method_msg,
        _chained_assignment_warning_msg,
        _check_cacher,
    )

    _chained_assignment_method_update_msg = _chained_assignment_method_msg
    REF_COUNT, REF_COUNT_IDX = 3, 2


_SETITEM_OPCODES = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap)


def _is_local(value: Any, caller: Any) -> bool:
    return any(local is value for local in caller.f_locals.values())


def warn_chained_setitem(references: int, receiver: Any, caller: Any) -> None:
    """Warn as `obj[key] = value` does when `obj` is a temporary.

    `references` is counted by the wrapper, since passing the object on adds another reference.
    """
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        is_view = any(block.refs.has_reference() for block in receiver._mgr.blocks)
        if references <= REF_COUNT + _check_cacher(receiver) and is_view:
            warnings.warn(_chained_assignment_warning_msg, FutureWarning, stacklevel=3)
    elif references <= REF_COUNT and not _is_local(receiver, caller) and _is_setitem_syntax(caller):
        warnings.warn(_chained_assignment_msg, ChainedAssignmentError, stacklevel=3)


def _is_setitem_syntax(caller: Any) -> bool:
    # Compiled code that sets an item holds one reference less, which would look like chained assignment.
    return caller.f_code.co_code[caller.f_lasti] in _SETITEM_OPCODES


def warn_chained_method(references: int, receiver: Any, caller: Any, *, is_update: bool) -> None:
    """Warn as an in-place method does when it mutates a temporary."""
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        if references <= REF_COUNT_METHOD + _check_cacher(receiver) and receiver._is_view_after_cow_rules():
            warnings.warn(_chained_assignment_warning_method_msg, FutureWarning, stacklevel=3)
    elif references <= REF_COUNT_METHOD and not _is_local(receiver, caller):
        message = _chained_assignment_method_update_msg if is_update else _chained_assignment_method_msg
        warnings.warn(message, ChainedAssignmentError, stacklevel=3)


def warn_chained_indexer(references: int, receiver: Any) -> None:
    """Warn as `obj.loc[key] = value` does when `obj` is a temporary."""
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        if references <= REF_COUNT_IDX + _check_cacher(receiver):
            warnings.warn(_chained_assignment_warning_msg, FutureWarning, stacklevel=3)
    elif references <= REF_COUNT_IDX:
        warnings.warn(_chained_assignment_msg, ChainedAssignmentError, stacklevel=3)


Rule = Callable[[Call], None]
ReadState = Callable[[Any], Any]
RewriteArgs = Callable[[Call], tuple[tuple[Any, ...], dict[str, Any]]]

# pandas attributes warnings to the first stack frame outside its own folder, so the wrappers must appear to be inside.
# Where it counts stack frames instead (the deprecation of `inplace`), the warning points here.
_SPOOFED_FILE = str(Path(pd.__file__).parent / "_clew.py")
# `apply("name")` of pandas 2 inspects the signature of the method for an `axis` parameter.
_NEEDS_SIGNATURE = pd.__version__.startswith("2.")
_installed: list[tuple[Any, str, Any, bool]] = []
_clock = time.perf_counter
_stack_frame = sys._getframe


def noop(_: Any) -> None:
    """Read no state before the call."""


class Patch(NamedTuple):
    """A patched function: the original, its rule, and the callbacks that run before the call."""

    original: Callable[..., Any]
    name: str
    rule: Rule
    read_state: ReadState = noop
    rewrite_args: RewriteArgs | None = None
    is_function: bool = False


def patch_method(
    owner: Any, name: str, rule: Rule, read_state: ReadState = noop, rewrite_args: RewriteArgs | None = None
) -> None:
    """Run `rule` after every user call of a method."""
    original = getattr(owner, name)
    patch = Patch(original, name, rule, read_state, rewrite_args)

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            # Saves copying an empty mapping.
            return original(self, *args, **kwargs) if kwargs else original(self, *args)
        return _trace_call(patch, (self, *args), kwargs, _stack_frame(1))

    _install_wrapper(owner, name, wrapper, original)


def patch_set_axis(owner: Any, name: str, rule: Rule, read_state: ReadState) -> None:
    """Patch `_set_axis`, which pandas calls very often: a fixed signature avoids packing arguments."""
    original = getattr(owner, name)
    patch = Patch(original, name, rule, read_state)

    def wrapper(self: Any, axis: Any, labels: Any) -> Any:
        if guard.depth:
            return original(self, axis, labels)
        return _trace_call(patch, (self, axis, labels), {}, _stack_frame(1))

    _install_wrapper(owner, name, wrapper, original)


def patch_in_place_method(
    owner: Any, name: str, rule: Rule, read_state: ReadState, rewrite_args: RewriteArgs | None = None
) -> None:
    """Patch a method that warns when it mutates a temporary object."""
    original = getattr(owner, name)
    patch = Patch(original, name, rule, read_state, rewrite_args)
    is_update = name == "update"

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return original(self, *args, **kwargs)
        if is_update or kwargs.get("inplace"):
            warn_chained_method(sys.getrefcount(self), self, _stack_frame(1), is_update=is_update)
        return _trace_call(patch, (self, *args), kwargs, _stack_frame(1))

    _install_wrapper(owner, name, wrapper, original)


def patch_setitem(owner: Any, rule: Rule, read_state: ReadState, rewrite_args: RewriteArgs | None = None) -> None:
    """Patch `obj[key] = value`, including its warning about chained assignment."""
    original = owner.__setitem__
    patch = Patch(original, "__setitem__", rule, read_state, rewrite_args)
    # A string key needs no rewriting.
    by_name_patch = patch._replace(rewrite_args=None)

    def wrapper(self: Any, key: Any, value: Any) -> None:
        if guard.depth:
            original(self, key, value)
            return
        caller = _stack_frame(1)
        warn_chained_setitem(sys.getrefcount(self), self, caller)
        _trace_call(by_name_patch if key.__class__ is str else patch, (self, key, value), {}, caller)

    _install_wrapper(owner, "__setitem__", wrapper, original)


def patch_getitem(owner: Any, rule: Rule) -> None:
    """Patch `obj[key]`, which pandas calls very often: a fixed signature avoids packing arguments."""
    original = owner.__getitem__
    patch = Patch(original, "__getitem__", rule)

    def wrapper(self: Any, key: Any) -> Any:
        if guard.depth:
            return original(self, key)
        return _trace_call(patch, (self, key), {}, _stack_frame(1))

    _install_wrapper(owner, "__getitem__", wrapper, original)


def patch_stack_level_method(owner: Any, name: str, rule: Rule, read_state: ReadState) -> None:
    """Patch a method that looks up the caller's variables by stack level."""
    original = getattr(owner, name)
    patch = Patch(original, name, rule, read_state)

    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return original(self, *args, **{**kwargs, "level": kwargs.get("level", 0) + 1})
        # Two stack frames are between pandas and the caller: this wrapper and `_trace_call`.
        kwargs = {**kwargs, "level": kwargs.get("level", 0) + 2}
        return _trace_call(patch, (self, *args), kwargs, _stack_frame(1))

    _install_wrapper(owner, name, wrapper, original)


def patch_function(module: Any, name: str, rule: Rule, rewrite_args: RewriteArgs | None = None) -> None:
    """Run `rule` after every user call of a module-level function."""
    original = getattr(module, name)
    patch = Patch(original, name, rule, noop, rewrite_args, is_function=True)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return original(*args, **kwargs) if kwargs else original(*args)
        return _trace_call(patch, args, kwargs, _stack_frame(1))

    _install_wrapper(module, name, wrapper, original)


def patch_classmethod(owner: Any, name: str, rule: Rule) -> None:
    """Run `rule` after every user call of a class method."""
    original = owner.__dict__[name]
    function = original.__func__
    patch = Patch(function, name, rule)

    def wrapper(cls: type, *args: Any, **kwargs: Any) -> Any:
        if guard.depth:
            return function(cls, *args, **kwargs)
        return _trace_call(patch, (cls, *args), kwargs, _stack_frame(1))

    functools.update_wrapper(wrapper, function)
    spoof_filename(wrapper)
    _set_attribute(owner, name, classmethod(wrapper), original)


def patch_property(owner: Any, name: str, rule: Rule) -> None:
    """Run `rule` after every user read of a property."""
    original = owner.__dict__.get(name) or getattr(owner, name)
    fget = original.fget
    patch = Patch(fget, name, rule)

    def getter(self: Any) -> Any:
        if guard.depth:
            return fget(self)
        return _trace_call(patch, (self,), {}, _stack_frame(1))

    spoof_filename(getter)
    _set_attribute(owner, name, property(getter, original.fset, original.fdel, original.__doc__), original)


def _trace_call(patch: Patch, args: tuple[Any, ...], kwargs: dict[str, Any], caller: FrameType) -> Any:
    original, name, rule, read_state, rewrite_args, is_function = patch
    guard.depth = 1
    try:
        if is_function:
            call = Call(name, None, args, kwargs, None, caller, is_function)
        else:
            call = Call(name, args[0], args[1:], kwargs, None, caller)
        if read_state is not noop:
            try:
                call.pre_state = read_state(args[0])
            except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
                record_error(name, error)
        if rewrite_args is not None:
            args, kwargs = _rewrite_call_args(patch, call, args, kwargs)
        call.started = _clock()
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            record_failure(call, error)
            raise
        call.ended = _clock()
        call.result = result
        try:
            rule(call)
        except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
            record_error(name, error)
        return result
    finally:
        guard.depth = 0


def _rewrite_call_args(
    patch: Patch, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments for the original function, with callbacks wrapped or evaluated."""
    try:
        new_args, kwargs = patch.rewrite_args(call)  # type: ignore[misc]
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        record_error(patch.name, error)
        return args, kwargs
    if patch.is_function:
        call.args, call.kwargs = new_args, kwargs
        return new_args, kwargs
    return (args[0], *new_args), kwargs


def spoof_filename(function: Any) -> None:
    """Make a function appear to be defined inside pandas."""
    function.__code__ = _with_spoofed_filename(function.__code__)


# Cached, so that wrappers of one kind share a code object: the interpreter specializes bytecode per code object.
@functools.cache
def _with_spoofed_filename(code: CodeType) -> CodeType:
    return code.replace(co_filename=_SPOOFED_FILE)


spoof_filename(_trace_call)


def _install_wrapper(owner: Any, name: str, wrapper: Any, original: Any) -> None:
    functools.update_wrapper(wrapper, original)
    if _NEEDS_SIGNATURE and inspect.isfunction(original) and "axis" in original.__code__.co_varnames:
        wrapper.__signature__ = inspect.signature(original)
    spoof_filename(wrapper)
    _set_attribute(owner, name, wrapper, original)


def _set_attribute(owner: Any, name: str, replacement: Any, original: Any) -> None:
    _installed.append((owner, name, original, name in vars(owner)))
    setattr(owner, name, replacement)


def patch_attribute(owner: Any, name: str, replacement: FunctionType | Any) -> None:
    """Install a hand-written wrapper; `remove_patches` removes it with the others."""
    original = vars(owner).get(name) or getattr(owner, name)
    if hasattr(replacement, "__code__"):
        spoof_filename(replacement)
    _set_attribute(owner, name, replacement, original)


def remove_patches() -> None:
    """Restore all patched attributes."""
    while _installed:
        owner, name, original, was_own_attribute = _installed.pop()
        if was_own_attribute:
            setattr(owner, name, original)
        else:
            delattr(owner, name)


def is_installed() -> bool:
    """Return whether the wrappers are installed."""
    return bool(_installed)
