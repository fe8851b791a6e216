"""Runtime events: when a cell started, how it ended, what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.capture.streams.clock import written
from clew.capture.streams.redaction import redacted

if TYPE_CHECKING:
    from clew.capture.sessions import Execution


def cell_started(execution: Execution) -> dict[str, Any]:
    """The event of a cell's start."""
    return _event(execution, "cell_execution_start", execution.started_at)


def cell_ended(execution: Execution) -> dict[str, Any]:
    """The event of a cell's end or error."""
    failure = execution.failure
    kind = "cell_execution_end" if failure is None else "cell_execution_error"
    event = _event(execution, kind, execution.started_at + execution.duration)
    event["end_memory_mb"] = execution.end_memory_mb
    event["duration_ms"] = round(execution.duration * 1000, 3)
    event["stopped"] = execution.is_stopped
    if failure is not None:
        event["error_info"] = {
            "error_type": failure.error_type,
            "error_message": failure.message,
            "traceback": failure.traceback,
        }
    return event


def _event(execution: Execution, kind: str, moment: float) -> dict[str, Any]:
    cell = execution.cell
    return {
        "event_type": kind,
        "execution_id": execution.execution_id,
        "cell_id": cell.id,
        "cell_name": cell.name,
        "cell_index": cell.index,
        "cell_source": redacted(cell.source),
        "cell_source_lines": len(cell.source.splitlines()),
        "notebook": execution.session.notebook,
        "start_memory_mb": execution.start_memory_mb,
        "timestamp": written(moment),
        "session_id": execution.session.session_id,
        "emitted_at": written(execution.told_at),
    }
