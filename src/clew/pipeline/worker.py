"""The work on one range of the log: each event is opened once, for the tables and for the index alike."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa

from clew.collector.segments import Range, decode_line, read_lines
from clew.events.identity import event_id
from clew.events.received import decode
from clew.events.rejection import RejectedError
from clew.index.observer import Observer
from clew.lake.arrival import Arrival
from clew.lake.files import FileWriter
from clew.lake.rows import EventRows
from clew.lake.tables import LARGE_COLUMNS
from clew.pipeline.telling import Told, telling

# Rows become Arrow when so much text has been read: a count of rows would let 10 MB events fill the memory.
_BYTES_PER_BATCH = 8 << 20


class EventWorker:
    """Writes the events of ranges into files below `root`; `skipped` names by `seq` those that are known."""

    def __init__(self, root: str, skipped: frozenset[int] = frozenset(), dictionary: bytes | None = None) -> None:
        self._root = root
        self._skipped = skipped
        self._dictionary = dictionary

    def __call__(self, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function for `mapInArrow`."""
        return telling(self._reports(ranges))

    def _reports(self, ranges: Iterator[pa.RecordBatch]) -> Iterator[Told]:
        writer, observer = FileWriter(self._root, LARGE_COLUMNS), Observer(self._dictionary)
        for batch in ranges:
            for part in batch.to_pylist():
                for rows in self._batches(Range(**part), observer):
                    yield Told(files=list(writer.add(rows)))
        yield Told(files=list(writer.flush()), changes=observer.changes())

    def _batches(self, part: Range, observer: Observer) -> Iterator[dict[str, pa.RecordBatch]]:
        rows, held = EventRows(), 0
        for seq, text in read_lines(part):
            if seq in self._skipped:
                continue
            self._take(seq, text, rows, observer)
            held += len(text)
            if held >= _BYTES_PER_BATCH:
                yield rows.batches()
                rows, held = EventRows(), 0
        yield rows.batches()

    def _take(self, seq: int, text: bytes, rows: EventRows, observer: Observer) -> None:
        line = decode_line(text)
        body = line.body
        arrival = Arrival(event_id(body), seq, datetime.fromisoformat(line.at), line.source, body)
        try:
            event = decode(line.stream, body)
        except RejectedError as fault:
            rows.reject(fault, line.stream, arrival)
            observer.note(None, arrival.event_id, seq)
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
        return telling(self._reports(rows))

    def _reports(self, rows: Iterator[pa.RecordBatch]) -> Iterator[Told]:
        writer = FileWriter(self._root, LARGE_COLUMNS)
        for batch in rows:
            yield Told(files=list(writer.add({self._table: batch})))
        yield Told(files=list(writer.flush()))
