"""Runtime events: start and end of cells, with duration, memory and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.capture.streams.clock import format_timestamp
from clew.capture.streams.redaction import redact

if TYPE_CHECKING:
    from clew.capture.sessions import Execution


def cell_start_event(execution: Execution) -> dict[str, Any]:
    """Build the start event of a cell."""
    return _runtime_event(execution, "cell_execution_start", execution.started_at)


def cell_end_event(execution: Execution) -> dict[str, Any]:
    """Build the end or error event of a cell."""
    failure = execution.failure
    kind = "cell_execution_end" if failure is None else "cell_execution_error"
    event = _runtime_event(execution, kind, execution.started_at + execution.duration)
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


def _runtime_event(execution: Execution, kind: str, timestamp: float) -> dict[str, Any]:
    cell = execution.cell
    return {
        "event_type": kind,
        "execution_id": execution.execution_id,
        "cell_id": cell.id,
        "cell_name": cell.name,
        "cell_index": cell.index,
        "cell_source": redact(cell.source),
        "cell_source_lines": len(cell.source.splitlines()),
        "notebook": execution.session.notebook,
        "start_memory_mb": execution.start_memory_mb,
        "timestamp": format_timestamp(timestamp),
        "session_id": execution.session.session_id,
        "emitted_at": format_timestamp(execution.emitted_at),
    }
