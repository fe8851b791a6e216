"""From a line of the log to the event that it holds."""

from __future__ import annotations

from clew.events import notebook, openlineage
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Event
from clew.events.stream import Stream


def decode(stream: str, body: bytes) -> Event | RuntimeEvent | DataFrameEvent:
    """Open an event of any stream; RejectedError for what is none."""
    if stream == Stream.RUNTIME:
        return notebook.decode(body, RuntimeEvent)
    if stream == Stream.DATAFRAME:
        return notebook.decode(body, DataFrameEvent)
    return openlineage.decode(body)
