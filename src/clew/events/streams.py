"""The event streams of a notebook, and decoding of events by stream."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial

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

# All other streams are OpenLineage.
_NOTEBOOK_DECODERS: dict[str, Callable[[Document], AnyEvent]] = {
    Stream.RUNTIME: partial(notebook.decode_notebook, kind=RuntimeEvent),
    Stream.DATAFRAME: partial(notebook.decode_notebook, kind=DataFrameEvent),
}


def decode_event(stream: str, body: Document) -> AnyEvent:
    """Decode an event of any stream; RejectedError if it is invalid."""
    require_utf8(body)
    return decode_utf8(stream, body)


def validate_event(stream: str, body: Document) -> None:
    """Reject what `decode_event` rejects, with as little decoding as possible."""
    if stream == Stream.OPENLINEAGE:
        require_utf8(body)
        openlineage.validate_openlineage(body)
    else:
        decode_event(stream, body)


def decode_utf8(stream: str, body: Document) -> AnyEvent:
    """Decode an event from bytes that are known to be UTF-8."""
    return _NOTEBOOK_DECODERS.get(stream, openlineage.decode_openlineage)(body)
