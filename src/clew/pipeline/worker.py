"""The work on one range of the log: each event is opened once, for the tables and for the index alike."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa

from clew.collector.segments import Range, decode_line, read_lines
from clew.events.facet_order import FacetOrder
from clew.events.identity import event_id
from clew.events.openlineage import Event
from clew.events.received import decode
from clew.events.rejection import RejectedError
from clew.index.changes import Changes
from clew.index.observer import Observer
from clew.index.raw_observer import RawObserver
from clew.lake.arrival import Arrival
from clew.lake.files import FileWriter
from clew.lake.rows import EventRows
from clew.lake.tables import LARGE_COLUMNS
from clew.pipeline.raw_spans import RawSpans, is_raw
from clew.pipeline.telling import Told, telling

# Rows become Arrow when so much text has been read: a count of rows would let 10 MB events fill the memory.
BYTES_PER_BATCH = 8 << 20


class EventWorker:
    """Writes the events of ranges into files below `root`; `skipped` names by `seq` those that are known.

    Of lineage events that stand in `raw_spans` of the log, only the event itself is written.
    """

    def __init__(
        self,
        root: str,
        skipped: frozenset[int] = frozenset(),
        dictionary: bytes | None = None,
        raw_spans: RawSpans = (),
        order: FacetOrder = FacetOrder.RECEIVED,
    ) -> None:
        self._root = root
        self._skipped = skipped
        self._dictionary = dictionary
        self._raw_spans = raw_spans
        self._order = order

    def __call__(self, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function for `mapInArrow`."""
        return telling(self._reports(ranges), self._root)

    def _reports(self, ranges: Iterator[pa.RecordBatch]) -> Iterator[Told]:
        writer = FileWriter(self._root, LARGE_COLUMNS)
        observer, raw_observer = Observer(self._dictionary, self._order), RawObserver()
        for batch in ranges:
            for part in batch.to_pylist():
                for rows in self._batches(Range(**part), observer, raw_observer):
                    yield Told(files=list(writer.add(rows)))
        changes = Changes.joined([observer.changes(), raw_observer.changes()])
        yield Told(files=list(writer.flush()), changes=changes)

    def _batches(
        self, part: Range, observer: Observer, raw_observer: RawObserver
    ) -> Iterator[dict[str, pa.RecordBatch]]:
        rows, held = EventRows(), 0
        for seq, text in read_lines(part):
            if seq in self._skipped:
                continue
            self._take(seq, text, rows, observer, raw_observer)
            held += len(text)
            if held >= BYTES_PER_BATCH:
                yield rows.batches()
                rows, held = EventRows(), 0
        yield rows.batches()

    def _take(self, seq: int, text: bytes, rows: EventRows, observer: Observer, raw_observer: RawObserver) -> None:
        line = decode_line(text)
        body = line.body
        arrival = Arrival(event_id(body), seq, datetime.fromisoformat(line.at), line.source, body)
        try:
            event = decode(line.stream, body)
        except RejectedError as fault:
            rows.reject(fault, line.stream, arrival)
            observer.note(None, arrival.event_id, seq)
            return
        if isinstance(event, Event) and is_raw(seq, self._raw_spans):
            rows.add_raw(event, arrival)
            raw_observer.note(event, arrival.event_id, seq)
        else:
            rows.add(event, arrival)
            observer.note(event, arrival.event_id, seq)


class RowWorker:
    """Writes the rows of one derived table into files below `root`."""

    def __init__(self, root: str, table: str) -> None:
        self._root = root
        self._table = table

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function for `mapInArrow`."""
        return telling(self._reports(rows), self._root)

    def _reports(self, rows: Iterator[pa.RecordBatch]) -> Iterator[Told]:
        writer = FileWriter(self._root, LARGE_COLUMNS)
        for batch in rows:
            yield Told(files=list(writer.add({self._table: batch})))
        yield Told(files=list(writer.flush()))
