"""The work on a part of the lake: its events are opened as if they had just come, for the index alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from clew.events.facet_order import FacetOrder
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Event
from clew.events.received import decode_text
from clew.events.rejection import RejectedError
from clew.events.stream import Stream
from clew.index.changes import Changes
from clew.index.observer import Observer
from clew.index.raw_observer import RawObserver
from clew.lake.raw_only import Filled
from clew.lake.recorded import Part, RecordedEvent, recorded_events
from clew.lake.tables import DATAFRAME_EVENTS, LINEAGE_EVENTS, RUNTIME_EVENTS
from clew.pipeline.memory import keep
from clew.pipeline.telling import Told, named_by, telling
from clew.pipeline.worker import LARGE_BYTES

_STREAMS = {
    LINEAGE_EVENTS.name: Stream.OPENLINEAGE,
    RUNTIME_EVENTS.name: Stream.RUNTIME,
    DATAFRAME_EVENTS.name: Stream.DATAFRAME,
}


class RebuildWorker:
    """Tells what the events of parts mean for the index. Rows name parts by their place in `parts`."""

    def __init__(
        self, root: str, parts: Sequence[Part], filled: Filled, dictionary: bytes | None, order: FacetOrder
    ) -> None:
        self._root = root
        self._parts = parts
        self._filled = filled
        self._dictionary = dictionary
        self._order = order

    def __call__(self, places: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function for `mapInArrow`."""
        return telling((Told(changes=self._changes(part)) for part in named_by(places, self._parts)), self._root)

    def _changes(self, part: Part) -> Changes:
        # Observers for each part: they expect events in the order received.
        observer, raw_observer = Observer(self._dictionary, self._order), RawObserver()
        largest = 0
        for recorded in recorded_events(part):
            largest = max(largest, len(recorded.body or b""))
            event = _opened(recorded)
            if isinstance(event, Event) and self._is_unfilled(recorded):
                raw_observer.note(event, recorded.event_id, recorded.seq)
            else:
                observer.note(event, recorded.event_id, recorded.seq)
        if largest < LARGE_BYTES:
            keep()
        return Changes.joined([observer.changes(), raw_observer.changes()])

    def _is_unfilled(self, recorded: RecordedEvent) -> bool:
        return recorded.is_raw_only and not self._filled.covers(recorded.seq, recorded.seq)


def _opened(recorded: RecordedEvent) -> Event | RuntimeEvent | DataFrameEvent | None:
    """The event; None if it was rejected, or cannot be read any more."""
    if recorded.body is None:
        return None
    try:
        return decode_text(_STREAMS[recorded.table], recorded.body)
    except RejectedError:
        return None
