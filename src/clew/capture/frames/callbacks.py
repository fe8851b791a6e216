"""Functions and expressions handed to pandas: run as the user's code, on a frame that stands in for theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from clew.capture.flags import INFERRED, TRANSFORMATION
from clew.capture.frames.calls import Call, value_provenance
from clew.capture.frames.state import is_scalar, provenance_of
from clew.capture.guard import user_code
from clew.capture.provenance import Provenance, through, union
from clew.capture.statements import reads_in, scalars_in
from clew.capture.versions import FrameVersion, give_state

try:
    from pandas.core.col import Expression
except ImportError:  # before pandas 3
    Expression = None


def is_callback(value: Any) -> bool:
    """Whether a value is evaluated with the frame: a function, or a `pd.col` expression."""
    return is_expression(value) or (callable(value) and not isinstance(value, type))


def is_expression(value: Any) -> bool:
    """Whether a value is a `pd.col` expression."""
    return Expression is not None and isinstance(value, Expression)


def evaluated(callback: Any, frame: Any) -> Any:
    """What a callback gives for `frame`."""
    with user_code():
        return callback._eval_expression(frame) if is_expression(callback) else callback(frame)


def evaluate_arguments(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`where(lambda d: ..., other)`: functions among the arguments are evaluated where that is seen."""
    call.args = tuple(_value_of(value, call.subject) for value in call.args)
    call.kwargs = {name: _value_of(value, call.subject) for name, value in call.kwargs.items()}
    return call.args, call.kwargs


def evaluate_cases(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`case_when([(lambda s: ..., value)])`: the same for each condition and replacement."""
    cases = call.argument(0, "caselist")
    if isinstance(cases, list) and all(isinstance(case, tuple) for case in cases):
        cases = [tuple(_value_of(part, call.subject) for part in case) for case in cases]
        call.args, call.kwargs = (cases,), {}
    return call.args, call.kwargs


def _value_of(value: Any, subject: Any) -> Any:
    return evaluated(value, subject) if is_callback(value) else value


class Watched:
    """A callback that notes the provenance of what it returns.

    pandas hands it a copy that holds the columns assigned so far, so the copy stands in for the original version
    with those columns replaced.
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
        """Run the callback on the stand-in."""
        if isinstance(frame, pd.DataFrame):
            give_state(frame, FrameVersion.standing_in(self.version, frame._mgr.axes[0], dict(self.assigned)))
        value = evaluated(self.callback, frame)
        self.assigned[self.label] = self._provenance(value)
        return value

    def _provenance(self, value: Any) -> Provenance:
        found = provenance_of(value)
        if found is not None:
            return found
        code = getattr(self.callback, "__code__", None)
        read = (scalars_in if is_scalar(value) else reads_in)(code) if code is not None else []
        if read:
            # The value left pandas inside of the callback.
            return through(union(*read), TRANSFORMATION | INFERRED)
        return {} if is_scalar(value) else through(value_provenance(value, self.call), TRANSFORMATION)
