"""Runtime and DataFrame lineage events of a notebook, typed."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import FieldInfo, fields

from clew.events.documents import Document, opened, part
from clew.events.rejection import Reason, RejectedError
from clew.events.timestamps import parse_time

# The namespace of a notebook's frames, cells and operations.
FRAMES: Final = "marimo"
# What a table can hold: a longer number in one event must not stop all others.
Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

# msgspec keeps no value raw in a union, so absence is an empty slice.
_ABSENT = Raw()


class ErrorInfo(Struct):
    """What a failed cell raised."""

    error_type: str | None = None
    error_message: str | None = None
    traceback: str | None = None


class RuntimeEvent(Struct):
    """The start, the end or the error of one cell execution."""

    event_type: str
    execution_id: str
    session_id: str
    timestamp: str
    cell_id: str | None = None
    cell_name: str | None = None
    cell_index: Long | None = None
    notebook: str | None = None
    cell_source: str | None = None
    cell_source_lines: Long | None = None
    start_memory_mb: float | None = None
    end_memory_mb: float | None = None
    duration_ms: float | None = None
    stopped: bool | None = None
    error_info: ErrorInfo | None = None
    emitted_at: str | None = None


class FrameInfo(Struct):
    """A frame as an operation saw it."""

    variable_name: str | None = None
    object_id: str | None = None
    version: str | None = None
    shape: list[Long] | None = None
    columns: list[str] | None = None
    memory_usage_mb: float | None = None


class Performance(Struct):
    """What an operation and its capture cost."""

    overhead_ms: float | None = None
    duration_ms: float | None = None
    df_size_mb: float | None = None
    sampled: bool | None = None


class DataFrameEvent(Struct):
    """One DataFrame operation."""

    event_type: str
    execution_id: str
    session_id: str
    timestamp: str
    cell_id: str | None = None
    cell_name: str | None = None
    notebook: str | None = None
    run_id: str | None = None
    operation_type: str | None = None
    operation_method: str | None = None
    operation_code: str | None = None
    line: Long | None = None
    end_line: Long | None = None
    count: Long | None = None
    operation_parameters: Raw = _ABSENT
    input_dataframes: list[FrameInfo] | None = None
    output_dataframes: list[FrameInfo] | None = None
    column_lineage: Raw = _ABSENT
    column_lineage_edges: Raw = _ABSENT
    performance: Performance | None = None
    emitted_at: str | None = None


def frame_values(frame: FrameInfo) -> dict[str, object]:
    """A frame as tables keep it: rows and columns instead of a shape."""
    rows, columns = (*(frame.shape or ()), None, None)[:2]
    return {
        "variable_name": frame.variable_name,
        "object_id": frame.object_id,
        "version": frame.version,
        "row_count": rows,
        "column_count": columns,
        "columns": frame.columns,
        "memory_usage_mb": frame.memory_usage_mb,
    }


EventT = TypeVar("EventT", RuntimeEvent, DataFrameEvent)

_REASONS = {
    "event_type": Reason.NO_IDENTITY,
    "session_id": Reason.NO_IDENTITY,
    "execution_id": Reason.NO_IDENTITY,
    "timestamp": Reason.NO_TIME,
}


def decode(body: Document, kind: type[EventT]) -> EventT:
    """Open a notebook's own event, which is text; RejectedError where it is not one."""
    event: EventT = opened(body, partial(_decode, type=kind), partial(_salvage, kind))
    for name, reason in _REASONS.items():
        if not getattr(event, name):
            raise RejectedError(reason, f"{name} is empty")
    try:
        parse_time(event.timestamp)
    except ValueError:
        raise RejectedError(Reason.NO_TIME, f"timestamp {event.timestamp[:60]!r} is no time") from None
    return event


# Not strict: the number 3 may stand as "3" or 3.0.
_decode = partial(msgspec.json.decode, strict=False)


def _salvage(kind: type[EventT], parts: dict[str, Raw]) -> EventT:
    """Keep all fields that are sound; the event's own text keeps the others."""
    values = {field.name: _value(field, parts.get(field.name)) for field in fields(kind)}
    for name, reason in _REASONS.items():
        if values[name] is None:
            raise RejectedError(reason, f"there is no {name}, or it is no text")
    return kind(**values)


def _value(field: FieldInfo, raw: Raw | None) -> Any:
    found = part(raw, partial(_decode, type=field.type))
    return found if found is not None or field.required else field.default
