"""Lineage of user functions and callbacks passed to pandas."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from clew.capture.backends.base import Call
from clew.capture.backends.pandas.call import value_provenance
from clew.capture.backends.pandas.state import (
    current_version,
    is_scalar,
    lineage_or_empty,
    provenance_of,
    provenance_or_empty,
)
from clew.capture.introspection.read_tracking import reads_defining, reads_in_code, scalars_in_code
from clew.capture.introspection.user_code import strip_frame, tracing_enabled
from clew.capture.lineage.frame_version import FrameVersion, set_state
from clew.capture.lineage.provenance import Provenance, apply_direct, union
from clew.capture.lineage.transformations import INFERRED, OPAQUE, TRANSFORMATION

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator
    from types import CodeType, FrameType


# Functions of these modules have no hidden inputs.
_TRANSPARENT_MODULES = ("builtins", "math", "numpy", "operator")
_CONTAINERS = (dict, list, set, tuple)


def is_opaque(function: Any) -> bool:
    """Return whether a value is a function with unknown inputs; `len`, `np.mean` and `str.upper` are not."""
    if not callable(function) or isinstance(function, np.ufunc):
        return False
    owner = getattr(function, "__objclass__", None) or type(getattr(function, "__self__", None))
    is_str_method = owner is str
    return not is_str_method and getattr(function, "__module__", None) not in _TRANSPARENT_MODULES


def has_user_function(argument: Any) -> bool:
    """Return whether an argument of `agg`, `transform` or `pivot_table` contains a user function."""
    return any(user_functions(argument))


def user_functions(argument: Any) -> list[Any]:
    """Return the user functions in an argument: a function, a list of them, or a mapping by column."""
    if isinstance(argument, (list, tuple, dict)):
        items = argument.values() if isinstance(argument, dict) else argument
        return [function for item in items for function in user_functions(item)]
    return [argument] if is_opaque(argument) else []


def referenced_columns(function: Any, version: FrameVersion) -> list[Hashable]:
    """Return the columns that the function's code names in constants or attributes."""
    labels: dict[Hashable, None] = {}
    for code in _code_objects(function):
        for constant in code.co_consts:
            labels.update(dict.fromkeys(_constant_labels(constant, version)))
        labels.update(dict.fromkeys(name for name in code.co_names if version.has(name)))
    return list(labels)


def closure_provenance(function: Any, caller: FrameType) -> Provenance:
    """Return the provenance of the globals and closure variables that a function references."""
    sources = [_variable_provenance(function, name, value, caller) for name, value in _variables(function)]
    return apply_direct(union(*sources), TRANSFORMATION | OPAQUE)


def _variable_provenance(function: Any, name: str, value: Any, caller: FrameType) -> Provenance:
    if isinstance(value, pd.DataFrame):
        version = current_version(value)
        return version.fields(referenced_columns(function, version) or None)
    if isinstance(value, pd.Series):
        # A lookup uses its index.
        return union(provenance_or_empty(value), *(lineage_or_empty(value).index or {}).values())
    if isinstance(value, _CONTAINERS):
        return union(*reads_defining(caller, {name}))
    return provenance_or_empty(value)


def _variables(function: Any) -> Iterator[tuple[str, Any]]:
    module_globals = getattr(function, "__globals__", {})
    cells = getattr(function, "__closure__", None) or ()
    for code in _code_objects(function):
        yield from ((name, module_globals[name]) for name in code.co_names if name in module_globals)
    for name, cell in zip(getattr(getattr(function, "__code__", None), "co_freevars", ()), cells, strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # empty cell
            continue


def _code_objects(function: Any) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions nested in it."""
    code = getattr(function, "__code__", None)
    pending = [code] if code is not None else []
    while pending:
        code = pending.pop()
        yield code
        pending.extend(constant for constant in code.co_consts if hasattr(constant, "co_consts"))


def _constant_labels(constant: Any, version: FrameVersion) -> list[Hashable]:
    items = constant if isinstance(constant, (tuple, frozenset)) else (constant,)
    return [item for item in (*items, constant) if isinstance(item, (str, int, tuple)) and version.has(item)]


try:
    from pandas.core.col import Expression
except ImportError:  # before pandas 3
    Expression = None


def is_callback(value: Any) -> bool:
    """Return whether pandas would call a value with the frame: a function or a `pd.col` expression."""
    return is_expression(value) or (callable(value) and not isinstance(value, type))


def is_expression(value: Any) -> bool:
    """Return whether a value is a `pd.col` expression."""
    return Expression is not None and isinstance(value, Expression)


def evaluate_callback(callback: Any, frame: Any) -> Any:
    """Evaluate a callback for `frame`, as user code."""
    try:
        with tracing_enabled():
            return callback._eval_expression(frame) if is_expression(callback) else callback(frame)
    except BaseException as error:
        strip_frame(error)
        raise


def evaluate_early(callback: Any, frame: Any) -> Any:
    """Evaluate a callback before pandas does; a failed one is replaced by one that raises the same error."""
    try:
        return evaluate_callback(callback, frame)
    except Exception as error:  # noqa: BLE001 - raised again
        strip_frame(error)
        return functools.partial(_raise_again, error)


def _raise_again(error: Exception, _: Any) -> None:
    try:
        raise error  # noqa: TRY301 - the frame of this function is removed
    except Exception:
        strip_frame(error)
        raise


def evaluate_arguments(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Evaluate callbacks among the arguments with tracing: `where(lambda d: ..., other)`."""
    call.args = tuple(_evaluate_if_callback(value, call.receiver) for value in call.args)
    call.kwargs = {name: _evaluate_if_callback(value, call.receiver) for name, value in call.kwargs.items()}
    return call.args, call.kwargs


def evaluate_cases(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Evaluate the conditions and replacements of `case_when([(lambda s: ..., value)])` with tracing."""
    cases = call.argument(0, "caselist")
    if isinstance(cases, list) and all(isinstance(case, tuple) for case in cases):
        cases = [tuple(_evaluate_if_callback(item, call.receiver) for item in case) for case in cases]
        call.args, call.kwargs = (cases,), {}
    return call.args, call.kwargs


def _evaluate_if_callback(value: Any, receiver: Any) -> Any:
    return evaluate_early(value, receiver) if is_callback(value) else value


class TracedCallback:
    """A wrapped callback that records the provenance of its return value.

    pandas passes a copy that holds the columns assigned so far. The copy gets an alias of the original version in
    which those columns are overridden.
    """

    def __init__(
        self,
        callback: Callable[..., Any],
        version: FrameVersion,
        assigned: dict[Any, Provenance],
        label: Any,
        call: Call,
    ) -> None:
        self.callback = callback
        self.version = version
        self.assigned = assigned
        self.label = label
        self.call = call

    def __call__(self, frame: Any) -> Any:
        """Run the callback on a frame with the alias version."""
        if isinstance(frame, pd.DataFrame):
            set_state(frame, FrameVersion.alias_of(self.version, frame._mgr.axes[0], dict(self.assigned)))
        try:
            value = evaluate_callback(self.callback, frame)
        except BaseException as error:
            strip_frame(error)
            raise
        self.assigned[self.label] = self._provenance(value)
        return value

    def _provenance(self, value: Any) -> Provenance:
        provenance = provenance_of(value)
        if provenance is not None:
            return provenance
        code = getattr(self.callback, "__code__", None)
        reads = (scalars_in_code if is_scalar(value) else reads_in_code)(code) if code is not None else []
        if reads:
            # The value left pandas inside the callback.
            return apply_direct(union(*reads), TRANSFORMATION | INFERRED)
        return {} if is_scalar(value) else apply_direct(value_provenance(value, self.call), TRANSFORMATION)
