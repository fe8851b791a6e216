"""Decoding of events by stream."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clew.events import notebook, openlineage
from clew.events.documents import Document, require_utf8
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Event
from clew.events.stream import Stream

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
