"""Spark tasks that decode log ranges once for tables and index, and that write derived tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial

import pyarrow as pa

from clew.collector.segments import LogRecord, SegmentRange, decode_record, parse_record_fast, read_lines
from clew.events.documents import Document
from clew.events.facet_order import FacetOrder
from clew.events.identity import event_id
from clew.events.openlineage import Event
from clew.events.received import AnyEvent, decode_event, decode_utf8
from clew.events.rejection import RejectedError
from clew.index.changes import ChangeSet
from clew.index.observer import ChangeExtractor
from clew.index.raw_observer import RawOnlyExtractor
from clew.lake.arrival import ReceivedEvent
from clew.lake.files import FLUSH_BYTES, FileWriter
from clew.lake.rows import EventTableBuilder
from clew.lake.tables import LARGE_COLUMNS
from clew.lake.wide_edges import expand_edges, has_wide_rows
from clew.pipeline.memory import skip_trim_after_task, trim_heap
from clew.pipeline.raw_spans import RawOnlyRanges, is_in_ranges
from clew.pipeline.telling import WorkerReport, encode_reports, spill_changes

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
        has_only_small_events = True
        for batch in ranges:
            for part in batch.to_pylist():
                for rows in self._batches(SegmentRange(**part), collectors):
                    yield WorkerReport(files=list(writer.add(rows)))
                    if collectors.large_bytes:
                        has_only_small_events = False
                        # The decoded events are freed: rows are written, or in Arrow buffers.
                        trim_heap()
                    if collectors.large_bytes >= MAX_LARGE_EVENTS_BYTES:
                        yield WorkerReport(files=list(writer.flush()))
                        yield spill_changes(collectors.changes(), self._root)
        yield WorkerReport(files=list(writer.flush()), changes=collectors.changes())
        if has_only_small_events:
            skip_trim_after_task()

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
