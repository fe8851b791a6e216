"""The event streams of a notebook, and decoding of events by stream."""

from __future__ import annotations

from enum import StrEnum

from clew.events import notebook, openlineage
from clew.events.decoding import Document, require_utf8
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Event


class Stream(StrEnum):
    """Stream of an event."""

    OPENLINEAGE = "openlineage"
    RUNTIME = "runtime"
    DATAFRAME = "dataframe"


STREAM_FILES: dict[str, Stream] = {
    "marimo_runtime.jsonl": Stream.RUNTIME,
    "marimo_lineage_events.jsonl": Stream.OPENLINEAGE,
    "marimo_dataframe_lineage.jsonl": Stream.DATAFRAME,
    # Written by the listener of a Spark session that a cell created.
    "spark_lineage_events.jsonl": Stream.OPENLINEAGE,
}


AnyEvent = Event | RuntimeEvent | DataFrameEvent


def decode_event(stream: str, body: Document, received_at: str = "") -> AnyEvent:
    """Decode an event of any stream; RejectedError if it is invalid.

    `received_at` is the time of an event that needs none of its own.
    """
    require_utf8(body)
    return decode_utf8(stream, body, received_at)


def validate_event(stream: str, body: Document) -> None:
    """Reject what `decode_event` rejects, and reserved names, with as little decoding as possible."""
    if stream == Stream.OPENLINEAGE:
        require_utf8(body)
        openlineage.validate_openlineage(body)
    else:
        decode_event(stream, body)


def decode_utf8(stream: str, body: Document, received_at: str = "") -> AnyEvent:
    """Decode an event from bytes that are known to be UTF-8."""
    if stream == Stream.RUNTIME:
        return notebook.decode_notebook(body, RuntimeEvent)
    if stream == Stream.DATAFRAME:
        return notebook.decode_notebook(body, DataFrameEvent, received_at)
    # All other streams are OpenLineage.
    return openlineage.decode_openlineage(body)
