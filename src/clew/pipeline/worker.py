"""The work on one range of the log: each event is opened once, for the tables and for the index alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

import pyarrow as pa

from clew.collector.segments import Line, Range, decode_line, read_lines, written_line
from clew.events.documents import Document
from clew.events.facet_order import FacetOrder
from clew.events.identity import event_id
from clew.events.openlineage import Event
from clew.events.received import AnyEvent, decode, decode_text
from clew.events.rejection import RejectedError
from clew.index.changes import Changes
from clew.index.observer import Observer
from clew.index.raw_observer import RawObserver
from clew.lake.arrival import Arrival
from clew.lake.files import FLUSH_BYTES, FileWriter
from clew.lake.rows import EventRows
from clew.lake.tables import LARGE_COLUMNS
from clew.lake.wide_edges import has_wide_rows, with_all_edges
from clew.pipeline.memory import give_back, keep
from clew.pipeline.raw_spans import RawSpans, is_raw
from clew.pipeline.telling import Told, put_aside, telling

# Rows become Arrow when so much text has been read: a count of rows would let 10 MB events fill the memory.
BYTES_PER_BATCH = 4 << 20
# Events of more than this hold what is noted of them in memory, and have little in common with others: what is noted
# is told as soon as they make up so much together.
LARGE_BYTES = 1 << 20
MOST_LARGE_BYTES = 16 << 20
# Beside the edges of a wide table that are being opened, less can be held.
_WIDE_FLUSH_BYTES = 16 << 20


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
        observers = _Observers(self._dictionary, self._order)
        is_usual = True
        for batch in ranges:
            for part in batch.to_pylist():
                for rows in self._batches(Range(**part), observers):
                    yield Told(files=list(writer.add(rows)))
                    if observers.large_bytes:
                        is_usual = False
                        # Free by now: the rows are written, or held by Arrow.
                        give_back()
                    if observers.large_bytes >= MOST_LARGE_BYTES:
                        yield Told(files=list(writer.flush()))
                        yield put_aside(observers.changes(), self._root)
        yield Told(files=list(writer.flush()), changes=observers.changes())
        if is_usual:
            keep()

    def _batches(self, part: Range, observers: _Observers) -> Iterator[dict[str, pa.RecordBatch]]:
        rows, held = EventRows(), 0
        for seq, text in read_lines(part):
            if seq in self._skipped:
                continue
            self._take(seq, text, rows, observers)
            held += len(text)
            if held >= BYTES_PER_BATCH:
                yield rows.batches()
                held = 0
        yield rows.batches()

    def _take(self, seq: int, text: bytes, rows: EventRows, observers: _Observers) -> None:
        line, body, event = _opened(text)
        arrival = Arrival(line.id or event_id(body), seq, datetime.fromisoformat(line.at), line.source, body)
        if isinstance(event, RejectedError):
            rows.reject(event, line.stream, arrival)
            observers.whole.note(None, arrival.event_id, seq)
            return
        if isinstance(event, Event) and is_raw(seq, self._raw_spans):
            rows.add_raw(event, arrival)
            observers.raw.note(event, arrival.event_id, seq)
        else:
            rows.add(event, arrival)
            observers.whole.note(event, arrival.event_id, seq)
        if len(body) >= LARGE_BYTES:
            observers.large_bytes += len(body)


def _opened(text: bytes) -> tuple[Line, Document, AnyEvent | RejectedError]:
    """A line of the log, its event's bytes, and the event or why there is none."""
    line = written_line(text)
    # As the writer writes it, the event stands in the line: if that is ASCII, so is the event.
    found = None if line is None else _event_in(line, decode_text if text.isascii() else decode)
    # A line that seemed to be the writer's may be none, if its event cannot be opened.
    return _event_in(decode_line(text), decode) if found is None or isinstance(found[2], RejectedError) else found


def _event_in(
    line: Line, opener: Callable[[str, Document], AnyEvent]
) -> tuple[Line, Document, AnyEvent | RejectedError]:
    body = line.document
    try:
        return line, body, opener(line.stream, body)
    except RejectedError as fault:
        return line, body, fault


class _Observers:
    """Those of one worker, for whole events and for raw ones; they begin anew when they have told their changes."""

    def __init__(self, dictionary: bytes | None, order: FacetOrder) -> None:
        self._new = partial(Observer, dictionary, order)
        self._begin()

    def changes(self) -> Changes:
        """All that was noted since the last time."""
        noted = Changes.joined([self.whole.changes(), self.raw.changes()])
        self._begin()
        return noted

    def _begin(self) -> None:
        self.whole, self.raw = self._new(), RawObserver()
        self.large_bytes = 0


class RowWorker:
    """Writes the rows of one derived table into files below `root`."""

    def __init__(self, root: str, table: str) -> None:
        self._root = root
        self._table = table

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function for `mapInArrow`."""
        return telling(self._reports(rows), self._root)

    def _reports(self, rows: Iterator[pa.RecordBatch]) -> Iterator[Told]:
        sizes = (FLUSH_BYTES, _WIDE_FLUSH_BYTES)
        usual, wide = (FileWriter(self._root, LARGE_COLUMNS, flush_bytes=size) for size in sizes)
        for batch in rows:
            writer = wide if has_wide_rows(batch) else usual
            for part in with_all_edges(batch):
                yield Told(files=list(writer.add({self._table: part})))
        yield Told(files=[*usual.flush(), *wide.flush()])
