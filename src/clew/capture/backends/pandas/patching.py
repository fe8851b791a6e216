"""Patches of pandas methods, properties and indexers; chained-assignment warnings."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.core.generic import NDFrame
from pandas.errors import ChainedAssignmentError

from clew.capture.backends.base import Patch, Patcher, Tracing
from clew.capture.backends.pandas.call import record_value
from clew.capture.environments.session import Repetition, current_execution
from clew.capture.introspection.user_code import guard, read_locals, strip_frame
from clew.capture.lineage.frame_version import STATE_ATTR
from clew.capture.lineage.provenance import scalar_provenance

if TYPE_CHECKING:
    from types import FrameType

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
    return any(local is value for local in read_locals(caller).values())


def warn_chained_setitem(references: int, receiver: Any, caller: Any) -> None:
    """Warn as `obj[key] = value` does when `obj` is a temporary.

    `references` is counted by the wrapper, since passing the object on adds another reference.
    """
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        is_view = any(block.refs.has_reference() for block in receiver._mgr.blocks)
        if references <= REF_COUNT + _check_cacher(receiver) and is_view:
            warnings.warn(_chained_assignment_warning_msg, FutureWarning, stacklevel=2)
    elif references <= REF_COUNT and not _is_local(receiver, caller) and _is_setitem_syntax(caller):
        warnings.warn(_chained_assignment_msg, ChainedAssignmentError, stacklevel=2)


def _is_setitem_syntax(caller: Any) -> bool:
    # Compiled code that sets an item holds one reference less, which would look like chained assignment.
    return caller.f_code.co_code[caller.f_lasti] in _SETITEM_OPCODES


def warn_chained_method(references: int, receiver: Any, caller: Any, *, is_update: bool) -> None:
    """Warn as an in-place method does when it mutates a temporary."""
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        if references <= REF_COUNT_METHOD + _check_cacher(receiver) and receiver._is_view_after_cow_rules():
            warnings.warn(_chained_assignment_warning_method_msg, FutureWarning, stacklevel=2)
    elif references <= REF_COUNT_METHOD and not _is_local(receiver, caller):
        message = _chained_assignment_method_update_msg if is_update else _chained_assignment_method_msg
        warnings.warn(message, ChainedAssignmentError, stacklevel=2)


def warn_chained_indexer(references: int, receiver: Any) -> None:
    """Warn as `obj.loc[key] = value` does when `obj` is a temporary."""
    if not _IS_COPY_ON_WRITE and not using_copy_on_write():
        if references <= REF_COUNT_IDX + _check_cacher(receiver):
            warnings.warn(_chained_assignment_warning_msg, FutureWarning, stacklevel=2)
    elif references <= REF_COUNT_IDX:
        warnings.warn(_chained_assignment_msg, ChainedAssignmentError, stacklevel=2)


# `apply("name")` of pandas 2 inspects the signature of the method for an `axis` parameter.
_NEEDS_SIGNATURE = pd.__version__.startswith("2.")
_stack_frame = sys._getframe
_SETATTR_CODE = NDFrame.__setattr__.__code__


# Traced accesses of a statement to single elements; later ones are only counted. More reads than writes, because rows
# that are collected in a list have the provenance of their scalars.
_MAX_TRACED_READS = 64
_MAX_TRACED_WRITES = 32
_MAX_LABELS = 1_000
_MAX_STATEMENTS = 8
_ELEMENT_TYPES = frozenset([int, str, float, np.int64, np.int32, np.float64, np.str_, pd.Timestamp])


def _find_element(owner: Any, key: Any) -> tuple[Any, Any]:
    """Return the lineage state and the label of the column for an access to one element; (None, None) for others."""
    if owner.__class__ is pd.DataFrame:
        if key.__class__ is tuple and len(key) == 2 and key[0].__class__ in _ELEMENT_TYPES:
            return (getattr(owner, STATE_ATTR), key[1]) if key[1].__class__ in _ELEMENT_TYPES else (None, None)
    elif owner.__class__ is pd.Series and key.__class__ in _ELEMENT_TYPES:
        state = getattr(owner, STATE_ATTR)
        # The entries of a row come from different columns.
        return state, key if state is not None and len(state.provenance) > 1 else None
    return None, None


def _is_repeated(caller: FrameType, state: Any, label: Any, limit: int) -> bool:
    """Return whether enough accesses of the statement to the same data were traced; count this one."""
    execution = current_execution()
    location = (id(caller.f_code), caller.f_lasti)
    repetition = execution.repetitions.get(location) if execution is not None else None
    if repetition is None or repetition.traced.get(label, 0) < limit:
        return False
    if repetition.state is not state:
        if not _is_written_by(execution, location, state):
            return False
        repetition.state = state
    repetition.uncounted += 1
    return True


def _is_written_by(execution: Any, location: tuple[int, int], state: Any) -> bool:
    """Return whether a frame was written by the statement, and since then only by other repeated statements."""
    for _ in range(_MAX_STATEMENTS):
        record = getattr(state, "made_by", None)
        if record is None:
            return False
        writer = (id(record.code), record.instruction)
        if writer == location:
            return True
        if writer not in execution.repetitions or len(record.parents) != 1:
            return False
        state = record.parents[0]
    return False


def _count_traced(caller: FrameType, state: Any, label: Any, new_state: Any) -> None:
    """Count a traced access; `new_state` is the lineage state after it."""
    execution = current_execution()
    if execution is None:
        return
    location = (id(caller.f_code), caller.f_lasti)
    repetition = execution.repetitions.get(location)
    if repetition is None:
        repetition = execution.repetitions[location] = Repetition(caller.f_code, new_state)
    elif len(repetition.traced) > _MAX_LABELS or (
        repetition.state is not state and not _is_written_by(execution, location, state)
    ):
        # Another frame, or one that was changed in between.
        repetition.traced.clear()
    repetition.traced[label] = repetition.traced.get(label, 0) + 1
    repetition.state = new_state


def _restart_tracing(caller: FrameType) -> None:
    """Trace the next accesses of the statement, and do not count the last one."""
    execution = current_execution()
    if execution is not None:
        repetition = execution.repetitions[id(caller.f_code), caller.f_lasti]
        repetition.traced.clear()
        repetition.uncounted -= 1


class PandasPatcher(Patcher):
    """Wrappers with the calling conventions of pandas."""

    def wrap(self, owner: Any, name: str, wrapper: Any, original: Any) -> None:
        """Install a wrapper with the name, the documentation and, if pandas needs it, the signature of the original."""
        if _NEEDS_SIGNATURE and inspect.isfunction(original) and "axis" in original.__code__.co_varnames:
            wrapper.__signature__ = inspect.signature(original)
        super().wrap(owner, name, wrapper, original)

    def member(self, owner: Any, name: str, tracing: Tracing) -> None:
        """Trace every user call of a method, or every user read of a property."""
        attribute = inspect.getattr_static(owner, name)
        if inspect.isfunction(attribute):
            self.method(owner, name, tracing)
        elif isinstance(attribute, property) and attribute.fget is not None:
            self.getter(owner, name, attribute, tracing)

    def getter(self, owner: Any, name: str, original: property, tracing: Tracing) -> None:
        """Trace every user read of a property."""
        fget: Any = original.fget
        patch, trace = Patch(fget, name, tracing), self.trace

        def getter(self: Any) -> Any:
            try:
                return fget(self) if guard.depth else trace(patch, (self,), {}, _stack_frame(1))
            except BaseException as error:
                strip_frame(error)
                raise

        self.spoof_filename(getter)
        self.replace(owner, name, property(getter, original.fset, original.fdel, original.__doc__), original)

    def class_method(self, owner: Any, name: str, tracing: Tracing) -> None:
        """Trace every user call of a class method."""
        original = owner.__dict__[name]
        function = original.__func__
        patch, trace = Patch(function, name, tracing), self.trace

        def wrapper(cls: type, *args: Any, **kwargs: Any) -> Any:
            try:
                return (
                    function(cls, *args, **kwargs)
                    if guard.depth
                    else trace(patch, (cls, *args), kwargs, _stack_frame(1))
                )
            except BaseException as error:
                strip_frame(error)
                raise

        functools.update_wrapper(wrapper, function)
        self.spoof_filename(wrapper)
        self.replace(owner, name, classmethod(wrapper), original)

    def getitem(self, owner: Any, tracing: Tracing, name: str = "__getitem__") -> None:
        """Patch `obj[key]`, which pandas calls very often: a fixed signature avoids packing arguments."""
        original = owner.__getitem__
        patch, trace = Patch(original, name, tracing), self.trace

        def wrapper(self: Any, key: Any) -> Any:
            try:
                return original(self, key) if guard.depth else trace(patch, (self, key), {}, _stack_frame(1))
            except BaseException as error:
                strip_frame(error)
                raise

        self.wrap(owner, "__getitem__", wrapper, original)

    def element_getitem(self, owner: Any, tracing: Tracing, name: str = "__getitem__") -> None:
        """Patch `series[key]` and `obj.loc[key]`; repeated reads of single elements are only counted."""
        original = owner.__getitem__
        patch, trace = Patch(original, name, tracing), self.trace
        is_indexer = name != "__getitem__"

        def wrapper(self: Any, key: Any) -> Any:
            try:
                if guard.depth:
                    return original(self, key)
                caller = _stack_frame(1)
                state, label = _find_element(self.obj if is_indexer else self, key)
                if state is None:
                    return trace(patch, (self, key), {}, caller)
                if _is_repeated(caller, state, label, _MAX_TRACED_READS):
                    guard.depth = 1
                    try:
                        return original(self, key)
                    finally:
                        guard.depth = 0
                result = trace(patch, (self, key), {}, caller)
                if not isinstance(result, NDFrame):
                    _count_traced(caller, state, label, state)
            except BaseException as error:
                strip_frame(error)
                raise
            return result

        self.wrap(owner, "__getitem__", wrapper, original)

    def set_axis(self, owner: Any, name: str, tracing: Tracing) -> None:
        """Patch `_set_axis`, which pandas calls very often, with a fixed signature."""
        original = getattr(owner, name)
        patch, trace = Patch(original, name, tracing), self.trace

        def wrapper(self: Any, axis: Any, labels: Any) -> Any:
            try:
                if guard.depth:
                    return original(self, axis, labels)
                return trace(patch, (self, axis, labels), {}, _stack_frame(1))
            except BaseException as error:
                strip_frame(error)
                raise

        self.wrap(owner, name, wrapper, original)

    def setitem(self, owner: Any, tracing: Tracing) -> None:
        """Patch `obj[key] = value`, including its warning about chained assignment."""
        original = owner.__setitem__
        patch, trace = Patch(original, "__setitem__", tracing), self.trace
        # A string key needs no preparation.
        by_name_patch = patch._replace(tracing=tracing._replace(prepare=None))

        def wrapper(self: Any, key: Any, value: Any) -> None:
            try:
                if guard.depth:
                    original(self, key, value)
                    return
                caller = _stack_frame(1)
                warn_chained_setitem(sys.getrefcount(self), self, caller)
                if caller.f_code is _SETATTR_CODE and caller.f_back is not None:
                    # `df.a = value` calls this from pandas' `__setattr__`.
                    caller = caller.f_back
                trace(by_name_patch if key.__class__ is str else patch, (self, key, value), {}, caller)
            except BaseException as error:
                strip_frame(error)
                raise

        self.wrap(owner, "__setitem__", wrapper, original)

    def indexer_setitem(self, owner: Any, name: str, tracing: Tracing) -> None:
        """Patch `obj.loc[key] = value`, including its warning about chained assignment."""
        original = owner.__setitem__
        patch, trace = Patch(original, name, tracing), self.trace

        def wrapper(self: Any, key: Any, value: Any) -> None:
            try:
                if guard.depth:
                    original(self, key, value)
                    return
                warn_chained_indexer(sys.getrefcount(self.obj), self.obj)
                caller, receiver = _stack_frame(1), self.obj
                state, label = _find_element(receiver, key)
                sources = scalar_provenance(value) if state is not None else None
                if sources is not None:
                    # A value that another column provides is traced as well.
                    label = (label, *{column for _, column in sources})
                if state is not None and _is_repeated(caller, state, label, _MAX_TRACED_WRITES):
                    row_count = len(receiver._mgr.axes[-1])
                    guard.depth = 1
                    try:
                        original(self, key, value)
                    finally:
                        guard.depth = 0
                    if len(receiver._mgr.axes[-1]) == row_count:
                        return
                    # The assignment added a row: assign again to record the new shape.
                    _restart_tracing(caller)
                trace(patch, (self, key, value), {}, caller)
                if state is not None:
                    _count_traced(caller, state, label, getattr(receiver, STATE_ATTR))
            except BaseException as error:
                strip_frame(error)
                raise

        self.wrap(owner, "__setitem__", wrapper, original)

    def in_place_method(self, owner: Any, name: str, tracing: Tracing) -> None:
        """Patch a method that warns when it mutates a temporary object."""
        original = getattr(owner, name)
        patch, trace = Patch(original, name, tracing), self.trace
        is_update = name == "update"

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if guard.depth:
                    return original(self, *args, **kwargs)
                if is_update or kwargs.get("inplace"):
                    warn_chained_method(sys.getrefcount(self), self, _stack_frame(1), is_update=is_update)
                return trace(patch, (self, *args), kwargs, _stack_frame(1))
            except BaseException as error:
                strip_frame(error)
                raise

        self.wrap(owner, name, wrapper, original)

    def stack_level_method(self, owner: Any, name: str, tracing: Tracing) -> None:
        """Patch a method that looks up the caller's variables by stack level."""
        original = getattr(owner, name)
        patch, trace = Patch(original, name, tracing), self.trace

        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                if guard.depth:
                    return original(self, *args, **{**kwargs, "level": kwargs.get("level", 0) + 1})
                # Two stack frames are between pandas and the caller: this wrapper and `trace`.
                kwargs = {**kwargs, "level": kwargs.get("level", 0) + 2}
                return trace(patch, (self, *args), kwargs, _stack_frame(1))
            except BaseException as error:
                strip_frame(error)
                raise

        self.wrap(owner, name, wrapper, original)


patches = PandasPatcher("pandas", finish=record_value)
