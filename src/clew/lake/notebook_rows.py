"""Rows of runtime and DataFrame events."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Raw

from clew.events.notebook import DataFrameEvent, ErrorInfo, Performance, RuntimeEvent, frame_to_dict
from clew.events.timestamps import parse_time

_NO_ERROR = ErrorInfo()
_NO_PERFORMANCE = Performance()


def runtime_row(event: RuntimeEvent) -> dict[str, Any]:
    """Build the columns of `runtime_events` that come from the event itself."""
    error = event.error_info or _NO_ERROR
    return {
        **_context(event),
        "cell_index": event.cell_index,
        "cell_source": event.cell_source,
        "cell_source_lines": event.cell_source_lines,
        "start_memory_mb": event.start_memory_mb,
        "end_memory_mb": event.end_memory_mb,
        "duration_ms": event.duration_ms,
        "stopped": event.stopped,
        "error_type": error.error_type,
        "error_message": error.error_message,
        "traceback": error.traceback,
    }


def dataframe_row(event: DataFrameEvent) -> dict[str, Any]:
    """Build the columns of `dataframe_events` that come from the event itself."""
    performance = event.performance or _NO_PERFORMANCE
    return {
        **_context(event),
        "run_uuid": event.run_id,
        "operation_type": event.operation_type,
        "operation_method": event.operation_method,
        "operation_code": event.operation_code,
        "line": event.line,
        "end_line": event.end_line,
        "count": event.count,
        "operation_parameters": _raw_text(event.operation_parameters),
        "input_dataframes": [frame_to_dict(frame) for frame in event.input_dataframes or ()],
        "output_dataframes": [frame_to_dict(frame) for frame in event.output_dataframes or ()],
        "column_lineage": _raw_text(event.column_lineage),
        "column_lineage_edges": _raw_text(event.column_lineage_edges),
        "overhead_ms": performance.overhead_ms,
        "duration_ms": performance.duration_ms,
        "df_size_mb": performance.df_size_mb,
        "sampled": performance.sampled,
    }


def _context(event: RuntimeEvent | DataFrameEvent) -> dict[str, Any]:
    return {
        "session_id": event.session_id,
        "execution_id": event.execution_id,
        "cell_id": event.cell_id,
        "cell_name": event.cell_name,
        "notebook": event.notebook,
        "event_type": event.event_type,
        "event_time": parse_time(event.timestamp),
        "emitted_at": _time_or_none(event.emitted_at),
    }


def _raw_text(raw: Raw) -> str | None:
    return bytes(raw).decode() or None


def _time_or_none(text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_time(text)
    except ValueError:
        return None
