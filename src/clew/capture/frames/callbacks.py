"""User callbacks and `pd.col` expressions passed to pandas, run with tracing enabled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from clew.capture.flags import INFERRED, TRANSFORMATION
from clew.capture.frames.calls import Call, value_provenance
from clew.capture.frames.state import is_scalar, provenance_of
from clew.capture.guard import tracing_enabled
from clew.capture.provenance import Provenance, apply_direct, union
from clew.capture.statements import reads_in_code, scalars_in_code
from clew.capture.versions import FrameVersion, set_state

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
    with tracing_enabled():
        return callback._eval_expression(frame) if is_expression(callback) else callback(frame)


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
    return evaluate_callback(value, receiver) if is_callback(value) else value


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
        value = evaluate_callback(self.callback, frame)
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
