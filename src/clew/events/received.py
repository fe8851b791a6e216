"""From a line of the log to the event that it holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from clew.events import notebook, openlineage
from clew.events.documents import Document, require_text
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Event
from clew.events.stream import Stream

AnyEvent = Event | RuntimeEvent | DataFrameEvent

# Whatever does not name one of these streams is OpenLineage's.
_OF_NOTEBOOKS: dict[str, Callable[[Document], AnyEvent]] = {
    Stream.RUNTIME: partial(notebook.decode, kind=RuntimeEvent),
    Stream.DATAFRAME: partial(notebook.decode, kind=DataFrameEvent),
}


def decode(stream: str, body: Document) -> AnyEvent:
    """Open an event of any stream; RejectedError for what is none."""
    require_text(body)
    return decode_text(stream, body)


def require_event(stream: str, body: Document) -> None:
    """Reject what `decode` rejects, without opening more of it than that needs."""
    if stream == Stream.OPENLINEAGE:
        require_text(body)
        openlineage.require_event(body)
    else:
        decode(stream, body)


def decode_text(stream: str, body: Document) -> AnyEvent:
    """The same of bytes that are known to be text."""
    return _OF_NOTEBOOKS.get(stream, openlineage.decode)(body)
