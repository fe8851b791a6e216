"""Cell executions and operations of notebooks."""

from __future__ import annotations

import json

from clew.events.notebook import DataFrameEvent, FrameInfo, RuntimeEvent, frame_to_dict
from clew.events.timestamps import parse_time, to_epoch_micros
from clew.index.changes import CellRow, OperationRow

_CELL_STATES = {"cell_execution_error": "failed", "cell_execution_end": "completed"}


def cell_row(event: RuntimeEvent, seq: int) -> CellRow:
    """Convert a runtime event to a row."""
    at = to_epoch_micros(parse_time(event.timestamp))
    is_start = event.event_type == "cell_execution_start"
    state = "stopped" if event.stopped else _CELL_STATES.get(event.event_type, "running")
    error = event.error_info
    return CellRow(
        session_id=event.session_id,
        execution_id=event.execution_id,
        notebook=event.notebook,
        cell_id=event.cell_id,
        cell_name=event.cell_name,
        cell_index=event.cell_index,
        cell_source=event.cell_source,
        started_at=at if is_start else None,
        ended_at=at if event.event_type in _CELL_STATES else None,
        start_memory_mb=event.start_memory_mb,
        end_memory_mb=event.end_memory_mb,
        duration_ms=event.duration_ms,
        error_type=None if error is None else error.error_type,
        error_message=None if error is None else error.error_message,
        traceback=None if error is None else error.traceback,
        state=state,
        first_seq=seq,
        last_seq=seq,
    )


def operation_row(event: DataFrameEvent, event_id: str, seq: int) -> OperationRow:
    """Convert a DataFrame event to a row."""
    performance = event.performance
    return OperationRow(
        session_id=event.session_id,
        # Events of older agents have no run id.
        operation_id=event.run_id or event_id,
        run_uuid=event.run_id,
        execution_id=event.execution_id,
        cell_id=event.cell_id,
        cell_name=event.cell_name,
        notebook=event.notebook,
        operation_type=event.operation_type,
        operation_method=event.operation_method,
        operation_code=event.operation_code,
        line=event.line,
        end_line=event.end_line,
        count=event.count,
        inputs=_frames(event.input_dataframes),
        outputs=_frames(event.output_dataframes),
        event_time=to_epoch_micros(parse_time(event.timestamp)),
        overhead_ms=None if performance is None else performance.overhead_ms,
        duration_ms=None if performance is None else performance.duration_ms,
        df_size_mb=None if performance is None else performance.df_size_mb,
        last_seq=seq,
    )


def _frames(frames: list[FrameInfo] | None) -> str:
    return json.dumps([frame_to_dict(frame) for frame in frames or ()])
