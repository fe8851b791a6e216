"""Spark tasks: read events of the log or the lake, write table files, extract index changes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from clew import __version__
from clew.errors import ClewError
from clew.eventlog.segments import (
    UNKNOWN_SOURCE,
    UNKNOWN_TIME,
    LogRecord,
    SegmentRange,
    decode_record,
    has_checksum,
    is_damaged,
    parse_record_fast,
    read_lines,
    received_at,
    split_damaged,
)
from clew.eventlog.staging import is_imported
from clew.events.decoding import Document, RejectedError, RejectionReason
from clew.events.facets import FacetOrder
from clew.events.ids import event_id
from clew.events.openlineage import Event
from clew.events.streams import AnyEvent, Stream, decode_event, decode_utf8
from clew.index.changes import ChangeSet
from clew.index.extract.extractor import ChangeExtractor, RawOnlyExtractor
from clew.lake.backfill_state import BackfilledRanges, Chunk, decode_raw_events, read_chunk
from clew.lake.data_files import FileWriter
from clew.lake.event_rows import EventTableBuilder, ReceivedEvent
from clew.lake.scan import RowGroupPartition, StoredEvent, read_stored_events
from clew.lake.schemas import DATAFRAME_EVENTS, EVENT_TABLE_NAMES, LARGE_COLUMNS, LINEAGE_EVENTS, RUNTIME_EVENTS
from clew.pipeline.checkpoint import RawOnlyRanges, is_in_ranges
from clew.pipeline.spark.worker_daemon import trim_heap
from clew.pipeline.worker_reports import WorkerReport, encode_report, spill_changes, tasks_of

# Text per Arrow batch; by bytes, because an event may be 10 MB.
BYTES_PER_BATCH = 4 << 20
# Changes of large events use much memory and merge little: they are spilled once the events reach this size in total.
LARGE_EVENT_BYTES = 1 << 20
MAX_LARGE_EVENTS_BYTES = 16 << 20


class TaskEvent(NamedTuple):
    """An event to process: decoded, an error if it cannot be decoded, or None if it is stored as rejected."""

    event: AnyEvent | RejectedError | None
    origin: ReceivedEvent | StoredEvent
    is_raw_only: bool = False
    stream: str = Stream.OPENLINEAGE


# Reads the events of a task in the order received.
EventReader = Callable[[Iterator[pa.RecordBatch]], Iterator[TaskEvent]]


def check_version(driver_version: str) -> None:
    """Raise if the driver has another version of clew than this worker."""
    if driver_version != __version__:
        message = f"A worker on {socket.gethostname()} has clew {__version__}, the driver has clew {driver_version}."
        raise ClewError(message, hint="Install the same version of clew on all machines.")


class EventTask:
    """Writes the rows of events to files below `root`, and extracts their index changes.

    Only rows of `tables` are written, and none of stored events. Index changes of a raw-only event exclude its facets.
    """

    def __init__(
        self,
        root: str,
        read: EventReader,
        dictionary: bytes | None = None,
        order: FacetOrder = FacetOrder.RECEIVED,
        tables: Collection[str] = EVENT_TABLE_NAMES,
    ) -> None:
        self._root = root
        self._read = read
        self._dictionary = dictionary
        self._order = order
        self._tables = tables
        self._clew_version = __version__
        self._has_large_events = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run as the function of `mapInArrow`."""
        check_version(self._clew_version)
        yield encode_report(self._process(batches), self._root)
        if self._has_large_events:
            # Spark reuses workers: an idle one must not hold the memory of large events.
            trim_heap()

    def _process(self, batches: Iterator[pa.RecordBatch]) -> WorkerReport:
        report, writer = WorkerReport(), FileWriter(self._root, LARGE_COLUMNS)
        collectors = _ChangeCollectors(self._dictionary, self._order)
        for rows in self._batches(_count_corrupt_records(self._read(batches), report), collectors):
            report.files += writer.add(rows)
            if collectors.large_bytes:
                self._has_large_events = True
                # The decoded events are freed: rows are written, or in Arrow buffers.
                trim_heap()
            if collectors.large_bytes >= MAX_LARGE_EVENTS_BYTES:
                report.files += writer.flush()
                spill_changes(report, collectors.changes(), self._root)
        report.files += writer.flush()
        report.changes = ChangeSet.concat([report.changes, collectors.changes()])
        return report

    def _batches(
        self, events: Iterator[TaskEvent], collectors: _ChangeCollectors
    ) -> Iterator[dict[str, pa.RecordBatch]]:
        rows, buffered_bytes = EventTableBuilder(), 0
        for item in events:
            add_rows(rows, item)
            collectors.add(item)
            buffered_bytes += len(item.origin.body or b"")
            if buffered_bytes >= BYTES_PER_BATCH:
                yield self._drain(rows)
                buffered_bytes = 0
        yield self._drain(rows)

    def _drain(self, rows: EventTableBuilder) -> dict[str, pa.RecordBatch]:
        return {name: batch for name, batch in rows.drain().items() if name in self._tables}


def _count_corrupt_records(events: Iterator[TaskEvent], report: WorkerReport) -> Iterator[TaskEvent]:
    for item in events:
        if isinstance(item.event, RejectedError) and item.event.reason is RejectionReason.CORRUPT_RECORD:
            report.corrupt_records += 1
        yield item


def add_rows(rows: EventTableBuilder, item: TaskEvent) -> None:
    """Add the rows of an event that is read from the log."""
    event, origin = item.event, item.origin
    if event is None or isinstance(origin, StoredEvent):
        return
    if isinstance(event, RejectedError):
        rows.reject(event, item.stream, origin)
    elif isinstance(event, Event) and item.is_raw_only:
        rows.add_raw(event, origin)
    else:
        rows.add(event, origin)


class _ChangeCollectors:
    """The change extractors of one task: for full and for raw-only events."""

    def __init__(self, dictionary: bytes | None, order: FacetOrder) -> None:
        self._new = partial(ChangeExtractor, dictionary, order)
        self._reset()

    def add(self, item: TaskEvent) -> None:
        """Add the changes of an event."""
        event, origin = item.event, item.origin
        if isinstance(event, Event) and item.is_raw_only:
            self._raw.add(event, origin.event_id, origin.seq)
        else:
            self._full.add(None if isinstance(event, RejectedError) else event, origin.event_id, origin.seq)
        size = len(origin.body or b"")
        if size >= LARGE_EVENT_BYTES:
            self.large_bytes += size

    def changes(self) -> ChangeSet:
        """Return the changes since the last call and reset."""
        changes = ChangeSet.concat([self._full.changes(), self._raw.changes()])
        self._reset()
        return changes

    def _reset(self) -> None:
        self._full, self._raw = self._new(), RawOnlyExtractor()
        self.large_bytes = 0


def read_log_events(
    batches: Iterator[pa.RecordBatch],
    duplicate_seqs: frozenset[int] = frozenset(),
    raw_only_ranges: RawOnlyRanges = (),
    last_backfilled: int = -1,
) -> Iterator[TaskEvent]:
    """Read the events of log ranges, except duplicates. Input rows are ranges.

    Events in `raw_only_ranges`, and imported events after `last_backfilled`, are raw-only.
    """
    for batch in batches:
        for part in batch.to_pylist():
            segment_range = SegmentRange(**part)
            for seq, text in read_lines(segment_range):
                for item in _read_line(segment_range, seq, text):
                    position = item.origin.seq
                    if position not in duplicate_seqs:
                        is_raw_only = item.is_raw_only and position > last_backfilled
                        yield item._replace(is_raw_only=is_raw_only or is_in_ranges(position, raw_only_ranges))


def _read_line(segment_range: SegmentRange, seq: int, text: bytes) -> Iterator[TaskEvent]:
    """Yield the event of a line; of a damaged line, its intact records and its damaged parts."""
    line = parse_record_fast(text)
    # A line of the log writer contains the event verbatim: if the line is ASCII, so is the event.
    decoded = None if line is None else _decode_event(line, decode_utf8 if text.isascii() else decode_event)
    if decoded is not None and not isinstance(decoded[2], RejectedError):
        yield _task_event(seq, *decoded)
    elif not is_damaged(text):
        # If the event cannot be decoded, the line may be of another writer.
        yield _task_event(seq, *_decode_event(decode_record(text), decode_event))
    else:
        for offset, part in split_damaged(text):
            if has_checksum(part):
                yield _task_event(seq + offset, *_decode_event(decode_record(part), decode_event))
            else:
                yield _corrupt_record(segment_range, seq + offset, part)


def _task_event(seq: int, line: LogRecord, body: Document, event: AnyEvent | RejectedError) -> TaskEvent:
    received = ReceivedEvent(line.id or event_id(body), seq, datetime.fromisoformat(line.at), line.source, body)
    return TaskEvent(event, received, is_imported(line.source), line.stream)


def _corrupt_record(segment_range: SegmentRange, seq: int, text: bytes) -> TaskEvent:
    """Return a damaged part of the log as a rejected event. Its id contains its position: equal parts count each."""
    detail = f"{len(text):,} bytes at {seq - segment_range.base:,} of {segment_range.path} are damaged"
    identity = event_id(b"%d " % seq + text)
    received = ReceivedEvent(identity, seq, received_at(text) or UNKNOWN_TIME, UNKNOWN_SOURCE, text)
    return TaskEvent(RejectedError(RejectionReason.CORRUPT_RECORD, detail), received)


def _decode_event(
    line: LogRecord, decoder: Callable[[str, Document, str], AnyEvent]
) -> tuple[LogRecord, Document, AnyEvent | RejectedError]:
    body = line.document
    try:
        return line, body, decoder(line.stream, body, line.at)
    except RejectedError as error:
        return line, body, error


def read_raw_only_events(
    batches: Iterator[pa.RecordBatch], root: str, files: Sequence[str], chunks: Sequence[Chunk]
) -> Iterator[TaskEvent]:
    """Read the raw-only events of chunks, to write their facets. Input rows are indices into `chunks`."""
    for chunk in tasks_of(batches, chunks):
        for event, received in decode_raw_events(read_chunk(root, files, chunk)):
            yield TaskEvent(event, received)


_STREAMS = {
    LINEAGE_EVENTS.name: Stream.OPENLINEAGE,
    RUNTIME_EVENTS.name: Stream.RUNTIME,
    DATAFRAME_EVENTS.name: Stream.DATAFRAME,
}


def read_lake_events(
    batches: Iterator[pa.RecordBatch],
    partitions: Sequence[RowGroupPartition],
    backfilled: BackfilledRanges,
    is_included: Callable[[StoredEvent], bool] = lambda _: True,
) -> Iterator[TaskEvent]:
    """Read the stored events of partitions that are included. Input rows are indices into `partitions`."""
    for partition in tasks_of(batches, partitions):
        for stored in filter(is_included, read_stored_events(partition)):
            is_pending = stored.is_raw_only and not backfilled.covers(stored.seq, stored.seq)
            yield TaskEvent(_decode_stored(stored), stored, is_pending)


def _decode_stored(stored: StoredEvent) -> AnyEvent | RejectedError | None:
    if stored.body is None:
        return None
    try:
        return decode_utf8(_STREAMS[stored.table], stored.body, stored.received_at)
    except RejectedError as error:
        return error
