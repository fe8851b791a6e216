"""Pending operations: eager frames are recorded immediately, lazy frames when they are collected or queried."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from clew.capture.foreign import attach_version, describe_frame, is_polars, record_operation, version_of_frame
from clew.capture.losses import record_error
from clew.capture.polars.verbs import RULES, Call, trace_unknown_method
from clew.capture.records import OperationRecord
from clew.capture.versions import STATE_ATTR, FrameVersion

if TYPE_CHECKING:
    from types import CodeType, FrameType


class PendingOperation:
    """A traced call with everything needed to record it later."""

    __slots__ = ("args", "code", "duration", "instruction", "kwargs", "name", "parents", "started")

    def __init__(
        self, name: str, parents: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any], caller: FrameType
    ) -> None:
        self.name = name
        self.parents = parents
        self.args = args
        self.kwargs = kwargs
        # Not the stack frame, which would retain the caller's variables.
        self.code: CodeType = caller.f_code
        self.instruction = caller.f_lasti
        self.started = time.perf_counter()
        self.duration = 0.0

    def finish(self) -> None:
        """Set the duration; called when the method has returned."""
        self.duration = time.perf_counter() - self.started

    def location(self) -> tuple[CodeType, int, float, float]:
        """Return the code, instruction offset, start time and duration."""
        return self.code, self.instruction, self.started, self.duration

    def record(self, frame: Any) -> FrameVersion:
        """Record the operation that created `frame`, and return its version."""
        sources = tuple(version_of_frame(parent) for parent in self.parents)
        version = describe_frame(frame)
        schema = self.parents[0].collect_schema() if self.parents and is_polars(self.parents[0]) else None
        call = Call(self.name, sources, self.args, self.kwargs, list(version.columns), schema)
        lineage = RULES.get(self.name, trace_unknown_method)(call)
        operation = OperationRecord(self.name, lineage.kind, version, lineage.edges)
        operation.rows = lineage.rows
        operation.parents = sources
        record_operation(operation, *self.location())
        return attach_version(frame, version)


def resolve_version(frame: Any) -> FrameVersion | None:
    """Return the version of a polars frame; record its pending operations first."""
    state = frame.__dict__.get(STATE_ATTR)
    if not isinstance(state, PendingOperation):
        return state if isinstance(state, FrameVersion) else None
    del frame.__dict__[STATE_ATTR]
    try:
        return state.record(frame)
    except sys.modules["polars"].exceptions.PolarsError:
        # An invalid plan; polars raises the error in user code.
        return None
    except Exception as error:  # noqa: BLE001 - capture must never change what the user's call does
        record_error(f"polars {state.name}", error)
        return None
