"""Runtime events: when a cell started, how it ended, what it cost."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from clew.capture.callers import is_user_code
from clew.capture.streams.clock import now, written
from clew.capture.streams.redaction import redacted

if TYPE_CHECKING:
    from clew.capture.sessions import Execution


def cell_started(execution: Execution) -> dict[str, Any]:
    """The event of a cell's start."""
    return _event(execution, "cell_execution_start", execution.started_at)


def cell_ended(execution: Execution) -> dict[str, Any]:
    """The event of a cell's end or error."""
    kind = "cell_execution_end" if execution.error is None else "cell_execution_error"
    event = _event(execution, kind, execution.started_at + execution.duration)
    event["end_memory_mb"] = execution.end_memory_mb
    event["duration_ms"] = round(execution.duration * 1000, 3)
    event["stopped"] = execution.is_stopped
    if execution.error is not None:
        event["error_info"] = error_info(execution.error)
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
        "emitted_at": now(),
    }


def error_info(error: BaseException) -> dict[str, str]:
    """An exception in its own words, with the frames of the user's code only."""
    return {"error_type": type(error).__name__, "error_message": message_of(error), "traceback": user_traceback(error)}


def message_of(error: BaseException) -> str:
    """What an exception says; some fail even at that."""
    try:
        return redacted(str(error))
    except Exception as failure:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"(no message: {type(failure).__name__})"


def user_traceback(error: BaseException) -> str:
    """The lines of a traceback that are the user's own."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    summary = traceback.extract_tb(error.__traceback__)
    kept = [line for frame, line in zip(frames, summary, strict=True) if is_user_code(frame.f_code)]
    return redacted("".join(traceback.format_list(kept)))
