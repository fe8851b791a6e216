"""Spark tasks: parse events of a log range or of the lake, write table files, extract index changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial

import pyarrow as pa

from clew.eventlog.segments import LogRecord, SegmentRange, decode_record, parse_record_fast, read_lines
from clew.events.decoding import Document, RejectedError
from clew.events.facets import FacetOrder
from clew.events.ids import event_id
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Event
from clew.events.streams import AnyEvent, Stream, decode_event, decode_utf8
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor, RawOnlyExtractor
from clew.lake.backfill_state import BackfilledRanges, Chunk, decode_raw_events, read_chunk
from clew.lake.data_files import FLUSH_BYTES, FileWriter
from clew.lake.event_rows import EventTableBuilder, LineageTableBuilder, ReceivedEvent
from clew.lake.facet_parsers import expand_edges, has_wide_rows
from clew.lake.scan import RowGroupPartition, StoredEvent, read_stored_events
from clew.lake.schemas import DATAFRAME_EVENTS, LARGE_COLUMNS, LINEAGE_EVENTS, RUNTIME_EVENTS
from clew.pipeline.checkpoint import RawOnlyRanges, is_in_ranges
from clew.pipeline.spark.worker_daemon import trim_heap
from clew.pipeline.worker_reports import WorkerReport, encode_reports, spill_changes, tasks_of

# Text per Arrow batch; by bytes, because an event may be 10 MB.
BYTES_PER_BATCH = 4 << 20
# Changes of large events use much memory and merge little: they are spilled once the events reach this size in total.
LARGE_EVENT_BYTES = 1 << 20
MAX_LARGE_EVENTS_BYTES = 16 << 20
# Smaller, because expanding the edges of a wide table needs memory as well.
_WIDE_FLUSH_BYTES = 16 << 20


class EventWorker:
    """Writes the events of log ranges to files below `root`, except duplicates.

    Lineage events within `raw_only_ranges` are written without their facets.
    """

    def __init__(
        self,
        root: str,
        duplicate_seqs: frozenset[int] = frozenset(),
        dictionary: bytes | None = None,
        raw_only_ranges: RawOnlyRanges = (),
        order: FacetOrder = FacetOrder.RECEIVED,
    ) -> None:
        self._root = root
        self._duplicate_seqs = duplicate_seqs
        self._dictionary = dictionary
        self._raw_only_ranges = raw_only_ranges
        self._order = order

    def __call__(self, ranges: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as the function of `mapInArrow`."""
        return encode_reports(self._reports(ranges), self._root)

    def _reports(self, ranges: Iterator[pa.RecordBatch]) -> Iterator[WorkerReport]:
        writer = FileWriter(self._root, LARGE_COLUMNS)
        collectors = _ChangeCollectors(self._dictionary, self._order)
        has_large_events = False
        for batch in ranges:
            for part in batch.to_pylist():
                for rows in self._batches(SegmentRange(**part), collectors):
                    yield WorkerReport(files=list(writer.add(rows)))
                    if collectors.large_bytes:
                        has_large_events = True
                        # The decoded events are freed: rows are written, or in Arrow buffers.
                        trim_heap()
                    if collectors.large_bytes >= MAX_LARGE_EVENTS_BYTES:
                        yield WorkerReport(files=list(writer.flush()))
                        yield spill_changes(collectors.changes(), self._root)
        yield WorkerReport(files=list(writer.flush()), changes=collectors.changes())
        if has_large_events:
            # Spark reuses workers: an idle one must not hold the memory of large events.
            trim_heap()

    def _batches(self, part: SegmentRange, collectors: _ChangeCollectors) -> Iterator[dict[str, pa.RecordBatch]]:
        rows, buffered_bytes = EventTableBuilder(), 0
        for seq, text in read_lines(part):
            if seq in self._duplicate_seqs:
                continue
            self._process_line(seq, text, rows, collectors)
            buffered_bytes += len(text)
            if buffered_bytes >= BYTES_PER_BATCH:
                yield rows.drain()
                buffered_bytes = 0
        yield rows.drain()

    def _process_line(self, seq: int, text: bytes, rows: EventTableBuilder, collectors: _ChangeCollectors) -> None:
        line, body, event = _decode_line(text)
        received = ReceivedEvent(line.id or event_id(body), seq, datetime.fromisoformat(line.at), line.source, body)
        if isinstance(event, RejectedError):
            rows.reject(event, line.stream, received)
            collectors.full.add(None, received.event_id, seq)
            return
        if isinstance(event, Event) and is_in_ranges(seq, self._raw_only_ranges):
            rows.add_raw(event, received)
            collectors.raw.add(event, received.event_id, seq)
        else:
            rows.add(event, received)
            collectors.full.add(event, received.event_id, seq)
        if len(body) >= LARGE_EVENT_BYTES:
            collectors.large_bytes += len(body)


def _decode_line(text: bytes) -> tuple[LogRecord, Document, AnyEvent | RejectedError]:
    """Decode a line of the log into the line, the event's bytes, and the event or its error."""
    line = parse_record_fast(text)
    # A line of the log writer contains the event verbatim: if the line is ASCII, so is the event.
    decoded = None if line is None else _decode_event(line, decode_utf8 if text.isascii() else decode_event)
    # If the event cannot be decoded, the line may be of another writer.
    return (
        _decode_event(decode_record(text), decode_event)
        if decoded is None or isinstance(decoded[2], RejectedError)
        else decoded
    )


def _decode_event(
    line: LogRecord, decoder: Callable[[str, Document], AnyEvent]
) -> tuple[LogRecord, Document, AnyEvent | RejectedError]:
    body = line.document
    try:
        return line, body, decoder(line.stream, body)
    except RejectedError as error:
        return line, body, error


class _ChangeCollectors:
    """The change extractors of one task: for full and for raw-only events."""

    def __init__(self, dictionary: bytes | None, order: FacetOrder) -> None:
        self._new = partial(ChangeExtractor, dictionary, order)
        self._reset()

    def changes(self) -> ChangeSet:
        """Return the changes since the last call and reset."""
        changes = ChangeSet.concat([self.full.changes(), self.raw.changes()])
        self._reset()
        return changes

    def _reset(self) -> None:
        self.full, self.raw = self._new(), RawOnlyExtractor()
        self.large_bytes = 0


class TableWriteTask:
    """Writes the rows of one derived table to files below `root`."""

    def __init__(self, root: str, table: str) -> None:
        self._root = root
        self._table = table

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as the function of `mapInArrow`."""
        return encode_reports(self._reports(rows), self._root)

    def _reports(self, rows: Iterator[pa.RecordBatch]) -> Iterator[WorkerReport]:
        sizes = (FLUSH_BYTES, _WIDE_FLUSH_BYTES)
        narrow, wide = (FileWriter(self._root, LARGE_COLUMNS, flush_bytes=size) for size in sizes)
        for batch in rows:
            writer = wide if has_wide_rows(batch) else narrow
            for part in expand_edges(batch):
                yield WorkerReport(files=list(writer.add({self._table: part})))
        yield WorkerReport(files=[*narrow.flush(), *wide.flush()])


class BackfillWorker:
    """Writes the facets of raw-only events below `root`. Input rows are indices into `parts`."""

    def __init__(
        self,
        root: str,
        files: Sequence[str],
        parts: Sequence[Chunk],
        dictionary: bytes | None,
        order: FacetOrder = FacetOrder.RECEIVED,
    ) -> None:
        self._root = root
        self._files = files
        self._parts = parts
        self._dictionary = dictionary
        self._order = order

    def __call__(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as the function of `mapInArrow`."""
        return encode_reports(self._reports(task_batches), self._root)

    def _reports(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[WorkerReport]:
        for part in tasks_of(task_batches, self._parts):
            yield from self._fill(part)

    def _fill(self, part: Chunk) -> Iterator[WorkerReport]:
        # One per chunk: it expects events in the order received.
        writer, observer = FileWriter(self._root, LARGE_COLUMNS), ChangeExtractor(self._dictionary, self._order)
        for rows in self._batches(part, observer):
            yield WorkerReport(files=list(writer.add(rows)))
        changes = observer.changes()
        # The event ids are in the index since they were ingested.
        changes.events = []
        yield WorkerReport(files=list(writer.flush()), changes=changes)

    def _batches(self, part: Chunk, observer: ChangeExtractor) -> Iterator[dict[str, pa.RecordBatch]]:
        rows, buffered_bytes = LineageTableBuilder(), 0
        for event, received in decode_raw_events(read_chunk(self._root, self._files, part)):
            rows.add(event, received)
            observer.add(event, received.event_id, received.seq)
            buffered_bytes += len(received.body)
            if buffered_bytes >= BYTES_PER_BATCH:
                yield _facets(rows)
                buffered_bytes = 0
        yield _facets(rows)


def _facets(rows: LineageTableBuilder) -> dict[str, pa.RecordBatch]:
    return {name: batch for name, batch in rows.drain().items() if name != LINEAGE_EVENTS.name}


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
        if largest >= LARGE_EVENT_BYTES:
            trim_heap()
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
