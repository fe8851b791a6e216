"""Spark task of an index rebuild: decode stored events and extract the index changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from clew.events.facet_order import FacetOrder
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Event
from clew.events.received import decode_utf8
from clew.events.rejection import RejectedError
from clew.events.stream import Stream
from clew.index.changes import ChangeSet
from clew.index.observer import ChangeExtractor
from clew.index.raw_observer import RawOnlyExtractor
from clew.lake.raw_only import BackfilledRanges
from clew.lake.recorded import RowGroupPartition, StoredEvent, read_stored_events
from clew.lake.tables import DATAFRAME_EVENTS, LINEAGE_EVENTS, RUNTIME_EVENTS
from clew.pipeline.memory import skip_trim_after_task
from clew.pipeline.telling import WorkerReport, encode_reports, tasks_of
from clew.pipeline.worker import LARGE_EVENT_BYTES

_STREAMS = {
    LINEAGE_EVENTS.name: Stream.OPENLINEAGE,
    RUNTIME_EVENTS.name: Stream.RUNTIME,
    DATAFRAME_EVENTS.name: Stream.DATAFRAME,
}


class RebuildWorker:
    """Extracts the index changes of partitions. Input rows are indices into `parts`."""

    def __init__(
        self,
        root: str,
        parts: Sequence[RowGroupPartition],
        backfilled: BackfilledRanges,
        dictionary: bytes | None,
        order: FacetOrder,
    ) -> None:
        self._root = root
        self._parts = parts
        self._backfilled = backfilled
        self._dictionary = dictionary
        self._order = order

    def __call__(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as the function of `mapInArrow`."""
        return encode_reports(
            (WorkerReport(changes=self._changes(part)) for part in tasks_of(task_batches, self._parts)), self._root
        )

    def _changes(self, part: RowGroupPartition) -> ChangeSet:
        # One per partition: they expect events in the order received.
        observer, raw_observer = ChangeExtractor(self._dictionary, self._order), RawOnlyExtractor()
        largest = 0
        for stored in read_stored_events(part):
            largest = max(largest, len(stored.body or b""))
            event = _decode(stored)
            if isinstance(event, Event) and self._is_pending_backfill(stored):
                raw_observer.add(event, stored.event_id, stored.seq)
            else:
                observer.add(event, stored.event_id, stored.seq)
        if largest < LARGE_EVENT_BYTES:
            skip_trim_after_task()
        return ChangeSet.concat([observer.changes(), raw_observer.changes()])

    def _is_pending_backfill(self, stored: StoredEvent) -> bool:
        return stored.is_raw_only and not self._backfilled.covers(stored.seq, stored.seq)


def _decode(stored: StoredEvent) -> Event | RuntimeEvent | DataFrameEvent | None:
    """Decode a stored event; None if it is rejected."""
    if stored.body is None:
        return None
    try:
        return decode_utf8(_STREAMS[stored.table], stored.body)
    except RejectedError:
        return None
