"""Runtime and DataFrame events of notebooks: models and decoding."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict

from clew.events.decoding import (
    Document,
    RejectedError,
    RejectionReason,
    decode_optional,
    decode_or_salvage,
    require_name,
    salvage_struct,
)
from clew.events.openlineage import parse_time

# The namespace of in-memory DataFrames, cells and operations of notebooks.
NOTEBOOK_NAMESPACE: Final = "marimo"
# The last part of `<notebook>/<cell>/<operation>`: jobs of operations, and frames that no variable holds. The name of a
# notebook is a path and may contain slashes.
_IN_CELL: Final = re.compile(r"(.+)/([^/]+)/((?:dataframe|pandas)_[^/]+|dataframe|_[^/]*)")
# Larger numbers do not fit into the tables and must not fail a batch.
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

# msgspec does not support Raw in a union: an absent value is an empty Raw.
_ABSENT = Raw()
_NULL = Raw(b"null")


def split_cell_name(name: str) -> tuple[str, str, str] | None:
    """Split `<notebook>/<cell>/<operation>`, or a variable private to a cell; None for any other name."""
    match = _IN_CELL.fullmatch(name)
    return None if match is None else (match[1], match[2], match[3])


class ErrorInfo(Struct):
    """Exception of a failed cell."""

    error_type: str | None = None
    error_message: str | None = None
    traceback: str | None = None


class NotebookEvent(Struct):
    """Members of all events of a cell execution."""

    event_type: str
    execution_id: str
    session_id: str
    timestamp: str
    cell_id: str | None = None
    cell_name: str | None = None
    notebook: str | None = None
    emitted_at: str | None = None


class RuntimeEvent(NotebookEvent):
    """Start, end or error of a cell execution."""

    cell_index: Int64 | None = None
    cell_source: str | None = None
    cell_source_lines: Int64 | None = None
    start_memory_mb: float | None = None
    end_memory_mb: float | None = None
    duration_ms: float | None = None
    stopped: bool | None = None
    error_info: ErrorInfo | None = None


class FrameInfo(Struct):
    """A DataFrame as input or output of an operation."""

    variable_name: str | None = None
    object_id: str | None = None
    version: str | None = None
    shape: list[Int64] | None = None
    columns: list[str] | None = None
    memory_usage_mb: float | None = None


class Performance(Struct):
    """Duration of an operation and overhead of its capture."""

    overhead_ms: float | None = None
    duration_ms: float | None = None
    df_size_mb: float | None = None
    sampled: bool | None = None


class DataFrameEvent(NotebookEvent):
    """One DataFrame operation. Without a time of its own, it has the time at which it was received."""

    timestamp: str = ""
    run_id: str | None = None
    operation_type: str | None = None
    operation_method: str | None = None
    operation_code: str | None = None
    line: Int64 | None = None
    end_line: Int64 | None = None
    count: Int64 | None = None
    operation_parameters: Raw = _ABSENT
    input_dataframes: list[FrameInfo] | None = None
    output_dataframes: list[FrameInfo] | None = None
    column_lineage: Raw = _ABSENT
    column_lineage_edges: Raw = _ABSENT
    performance: Performance | None = None


def flatten_runtime(event: RuntimeEvent) -> dict[str, Any]:
    """Return the members of an event and of its error by name."""
    return {**asdict(event), **asdict(event.error_info or ErrorInfo())}


def flatten_dataframe(event: DataFrameEvent) -> dict[str, Any]:
    """Return the members of an event and of its performance by name; frames are converted to table rows."""
    return {
        **asdict(event),
        **asdict(event.performance or Performance()),
        "run_uuid": event.run_id,
        "input_dataframes": [frame_to_dict(frame) for frame in event.input_dataframes or ()],
        "output_dataframes": [frame_to_dict(frame) for frame in event.output_dataframes or ()],
    }


def frame_to_dict(frame: FrameInfo) -> dict[str, object]:
    """Convert a frame to a table row, with row and column counts instead of the shape."""
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

_IDENTITY = ("event_type", "session_id", "execution_id")


def decode_notebook(body: Document, kind: type[EventT], received_at: str = "") -> EventT:
    """Decode a runtime or DataFrame event from UTF-8; RejectedError if it is invalid."""
    event: EventT = decode_or_salvage(body, partial(_decode, type=kind), partial(_decode_lenient, kind))
    for name in _IDENTITY:
        require_name(name, getattr(event, name))
    if event.timestamp or kind is RuntimeEvent:
        try:
            parse_time(event.timestamp)
        except ValueError:
            detail = f"timestamp {event.timestamp[:60]!r} is not a time"
            raise RejectedError(RejectionReason.NO_TIME, detail) from None
    event.timestamp = event.timestamp or received_at
    return event


# Not strict: the number 3 may be written as "3" or 3.0.
_decode = partial(msgspec.json.decode, strict=False)
_decode_str = msgspec.json.Decoder(str, strict=False).decode


def _decode_lenient(kind: type[EventT], members: dict[str, Raw]) -> EventT:
    """Decode the valid fields; the others remain in the raw event."""
    for name in _IDENTITY:
        if decode_optional(members.get(name), _decode_str) is None:
            raise RejectedError(RejectionReason.NO_IDENTITY, f"{name} is missing or not a string")
    has_time = kind is RuntimeEvent or members.get("timestamp", _NULL) != _NULL
    event = salvage_struct(kind, members, is_strict=False)
    if event is None or (has_time and not event.timestamp):
        raise RejectedError(RejectionReason.NO_TIME, "timestamp is missing or not a string")
    return event
