"""Remove a dataset, a notebook session or a namespace from the log, the lake, the index and their caches.

The steps can be repeated: an interrupted call is recorded in the data directory, and completed by the next one.

1. the lake, table by table, and the log: events are deleted, or written again without the entity
2. event files of notebooks, caches of the index, other files of the data directory
3. the index and the derived tables are rebuilt, earlier versions of the tables are deleted
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import Struct, field
from pyspark.sql import SparkSession

from clew.collector.file_import import adopt_published, forget_stream, import_streams, pending_stream_bytes
from clew.data_dir import BucketUrl, DataDir, replace_file
from clew.errors import ClewError
from clew.eventlog.retention import overwrite_lines
from clew.eventlog.segments import decode_record, is_damaged, list_paths, replace_event
from clew.eventlog.writer import LogWriter
from clew.events.decoding import RejectedError
from clew.events.erasure import ErasureKind, ErasureTarget, EventEraser
from clew.events.openlineage import Event
from clew.events.streams import STREAM_FILES, Stream, decode_event
from clew.lake.backfill_state import BackfilledRanges, read_backfilled_ranges
from clew.lake.compaction import purge_history, replace_events
from clew.lake.data_files import DataFile, FileWriter
from clew.lake.event_rows import EventTableBuilder, ReceivedEvent
from clew.lake.lake import Lake
from clew.lake.manifest import check_integrity
from clew.lake.refresh_state import reset_refresh_state
from clew.lake.scan import ValueRange, scan_range
from clew.lake.schemas import EVENT_GRAIN_TABLES, LARGE_COLUMNS, REJECTED_EVENTS, TABLES_BY_NAME
from clew.pipeline.checkpoint import Checkpoint, forget_log_tails, open_log
from clew.pipeline.locks import BACKFILL_LOCK, PIPELINE_LOCK, acquire_lock
from clew.pipeline.workers import BYTES_PER_BATCH, TaskEvent, add_rows
from clew.progress import ProgressCallback, no_progress

_REQUEST_FILE: Final = "forget.json"
_ALL_POSITIONS: Final = ValueRange("seq", 0, 2**63 - 1)
# An event may be 10 MB.
_ROWS_PER_BATCH: Final = 64
_COLUMNS: Final = ("event_id", "seq", "received_at", "source", "stream", "source_metadata", "is_raw_only")
_STREAMS: Final = {"runtime_events": Stream.RUNTIME, "dataframe_events": Stream.DATAFRAME}


class ErasureCount(Struct):
    """Events that were deleted, and events from which the entity was removed."""

    deleted: int = 0
    changed: int = 0

    def add(self, old: bytes, new: bytes) -> None:
        """Count an event."""
        self.deleted += not new
        self.changed += bool(new) and new != old


class ForgetReceipt(Struct):
    """What was removed where, what still mentions the entity, and what clew cannot reach."""

    target: ErasureTarget
    requested_at: str
    completed_at: str = ""
    log: ErasureCount = field(default_factory=ErasureCount)
    lake: ErasureCount = field(default_factory=ErasureCount)
    streams: ErasureCount = field(default_factory=ErasureCount)
    # Rows by table.
    deleted_rows: dict[str, int] = field(default_factory=dict)
    deleted_files: list[str] = field(default_factory=list)
    # Events that still contain the name, for example in the name of a job.
    remaining_mentions: int = 0
    not_removed: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """True if nothing was found."""
        return self.lake == self.log == self.streams == ErasureCount() and not self.deleted_files


class _Request(Struct, frozen=True):
    target: ErasureTarget
    requested_at: str


def read_pending_target(home: DataDir) -> ErasureTarget | None:
    """Return the entity of an interrupted call; None if there is none."""
    request = _read_request(home)
    return None if request is None else request.target


def count_matches(home: DataDir, target: ErasureTarget) -> ForgetReceipt:
    """Count the events that `forget` would change, without changing anything."""
    receipt, eraser = ForgetReceipt(target, _now()), _collect(home, target)
    for row in _stored_events(Lake(home.lake)):
        receipt.lake.add(row["body"], eraser.erase(row["stream"], row["source"], row["body"]))
    for path in list_paths(home.log):
        for line in _lines(path):
            _erase_line(eraser, line, receipt.log)
    receipt.not_removed = _list_unreachable(home, target)
    return receipt


def forget(
    home: DataDir,
    target: ErasureTarget,
    *,
    erase_others: Callable[[EventEraser], Iterable[str]] = lambda _: (),
    on_progress: ProgressCallback = no_progress,
    spark: SparkSession | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> ForgetReceipt:
    """Remove an entity permanently. No other process may write to the log, the lake or the index.

    `erase_others` removes it from other files, and returns what it could not change.
    """
    check_integrity(home.lake)
    pending, receipt = _read_request(home), ForgetReceipt(target, _now())
    if pending is not None and pending.target != target:
        message = f"The removal of {pending.target} was interrupted."
        raise ClewError(message, hint="Complete it first: run `clew forget --resume`.")
    with (
        acquire_lock(home.lake / PIPELINE_LOCK) as check_lock,
        acquire_lock(home.lake / BACKFILL_LOCK, "backfill"),
        open_log(home) as log,
    ):
        _import_all(home, target, log)
        lake = Lake(home.lake, check_lock)
        on_progress("Searching events")
        eraser = _collect(home, target)
        replace_file(home.root / _REQUEST_FILE, msgspec.json.encode(_Request(target, receipt.requested_at)))
        in_use = erase_others(eraser)
        on_progress("Rewriting the lake")
        _erase_from_lake(home, lake, eraser, receipt)
        on_progress("Rewriting the log")
        _erase_from_log(home, eraser, receipt)
        _erase_from_streams(home, eraser, receipt)
    if pending is not None or not receipt.is_empty:
        # Imported lazily: only this needs Spark.
        from clew.pipeline.pipeline import open_pipeline

        with open_pipeline(
            home, on_progress=on_progress, spark=spark, master=master, conf=conf, rebuild=True
        ) as pipeline:
            pipeline.refresh()
            on_progress("Deleting earlier versions")
            with acquire_lock(home.lake / BACKFILL_LOCK, "backfill"):
                purge_history(pipeline.lake)
        _delete_caches(home, receipt)
    receipt.remaining_mentions = sum(eraser.mentions(row["body"]) for row in _stored_events(Lake(home.lake)))
    receipt.not_removed = [*in_use, *_list_unreachable(home, target)]
    receipt.completed_at = _now()
    (home.root / _REQUEST_FILE).unlink(missing_ok=True)
    return receipt


def _import_all(home: DataDir, target: ErasureTarget, log: LogWriter) -> None:
    """Import what would bring the entity back into the log later; raise if that is not possible."""
    folder = _session_folder(home, target)
    if folder is not None and any(folder.glob(".capture/*.log")):
        message = f"The notebook of {target} is still running."
        raise ClewError(message, hint="Stop its kernel, then run the command again. Nothing was removed.")
    topic = Checkpoint(home.checkpoint).topic
    if not topic:
        import_streams(home.streams, log)
        adopt_published(log)
    elif pending_stream_bytes(home.streams, home.log):
        message = f"Events of notebooks were not produced to the topic {topic} yet."
        raise ClewError(message, hint="Run `clew pipeline run` with --kafka first. Nothing was removed.")


def _collect(home: DataDir, target: ErasureTarget) -> EventEraser:
    """Return an eraser that has seen all events."""
    eraser = EventEraser(target)
    for row in _stored_events(Lake(home.lake)):
        eraser.collect(row["stream"], row["body"])
    for path in list_paths(home.log):
        for line in _lines(path):
            record = decode_record(line)
            eraser.collect(record.stream, record.document)
    return eraser


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from (line.removesuffix(b"\n") for line in file if line.strip(b" \n"))


def _stored_events(lake: Lake) -> Iterator[dict[str, Any]]:
    """Yield the events of all tables with table, stream, source and body."""
    for name in EVENT_GRAIN_TABLES:
        rows = scan_range(lake, TABLES_BY_NAME[name], _ALL_POSITIONS)
        body = "body" if name == REJECTED_EVENTS.name else "event"
        columns = [column for column in (*_COLUMNS, body) if column in rows.schema.names]
        for batch in rows.scanner(columns=columns, batch_size=_ROWS_PER_BATCH, batch_readahead=0).to_batches():
            for row in batch.to_pylist():
                text = row.pop(body)
                row["body"] = text if isinstance(text, bytes) else (text or "").encode()
                yield {"source": "", "stream": _STREAMS.get(name, Stream.OPENLINEAGE), **row, "table": name}


def _erase_from_lake(home: DataDir, lake: Lake, eraser: EventEraser, receipt: ForgetReceipt) -> None:
    backfilled = read_backfilled_ranges(lake)
    writer = _EventRewriter(lake, eraser, backfilled)
    positions: list[int] = []
    for row in _stored_events(lake):
        body = row["body"]
        erased = eraser.erase(row["stream"], row["source"], body)
        if erased != body:
            positions.append(row["seq"])
            receipt.lake.add(body, writer.add(row, erased))
    files = writer.flush()
    if positions:
        # First, so that the next pipeline completes an interrupted call.
        reset_refresh_state(lake)
        Checkpoint(home.checkpoint).request_reindex()
        receipt.deleted_rows = replace_events(lake, pa.array(positions, pa.int64()), files)


class _EventRewriter:
    """Writes the rows of changed events to files, without committing them."""

    def __init__(self, lake: Lake, eraser: EventEraser, backfilled: BackfilledRanges) -> None:
        self._eraser = eraser
        self._backfilled = backfilled
        self._writer = FileWriter(str(lake.root), LARGE_COLUMNS)
        self._builder, self._buffered_bytes = EventTableBuilder(), 0
        self._files: list[DataFile] = []

    def add(self, row: dict[str, Any], body: bytes) -> bytes:
        """Add a changed event; return its new body, which is empty if it must be deleted."""
        if not body or row["table"] == REJECTED_EVENTS.name:
            return b""
        try:
            event = decode_event(row["stream"], body, row["received_at"].isoformat())
        except RejectedError:
            return b""
        metadata = self._eraser.mask(row.get("source_metadata"))
        received = ReceivedEvent(row["event_id"], row["seq"], row["received_at"], row["source"], body, metadata)
        is_pending = bool(row.get("is_raw_only")) and not self._backfilled.covers(row["seq"], row["seq"])
        add_rows(self._builder, TaskEvent(event, received, isinstance(event, Event) and is_pending, row["stream"]))
        self._buffered_bytes += len(body)
        if self._buffered_bytes >= BYTES_PER_BATCH:
            self._drain()
        return body

    def flush(self) -> list[DataFile]:
        """Write the rest; return all files."""
        self._drain()
        self._files += self._writer.flush()
        return self._files

    def _drain(self) -> None:
        self._files += self._writer.add(self._builder.drain())
        self._buffered_bytes = 0


def _erase_from_log(home: DataDir, eraser: EventEraser, receipt: ForgetReceipt) -> None:
    # Before the first line is changed: otherwise the log would seem to be cut.
    forget_log_tails(home.checkpoint)
    for path in list_paths(home.log):
        overwrite_lines(path, lambda _, line: _erase_line(eraser, line, receipt.log))


def _erase_line(eraser: EventEraser, line: bytes, count: ErasureCount) -> bytes:
    """Return a line of the log without the entity, of the same size."""
    if is_damaged(line):
        if not eraser.mentions(line):
            return line
        count.deleted += 1
        return b" " * len(line)
    record = decode_record(line)
    body = record.body
    erased = eraser.erase(record.stream, record.source, body)
    if erased == body:
        return line
    replaced = replace_event(line, erased)
    count.add(body, erased if replaced.strip() else b"")
    return replaced


def _erase_from_streams(home: DataDir, eraser: EventEraser, receipt: ForgetReceipt) -> None:
    """Erase from the event files of notebooks, which are in the log already."""

    def erase(stream: Stream, source: str, line: bytes) -> bytes:
        erased = eraser.erase(stream, source, line)
        if erased == line:
            return line
        # Not written again: the log has the event, and a changed one would be imported as a new one.
        receipt.streams.deleted += 1
        return b" " * len(line)

    folder = _session_folder(home, eraser.target)
    if folder is not None:
        shutil.rmtree(folder)
        receipt.deleted_files.append(str(folder))
    if eraser.target.kind is ErasureKind.SESSION:
        forget_stream(eraser.target.id, home.log)
    for name, stream in STREAM_FILES.items():
        for path in sorted(home.streams.glob(f"*/{name}")):
            source = path.relative_to(home.streams).as_posix()
            overwrite_lines(path, lambda _, line, stream=stream, source=source: erase(stream, source, line))  # type: ignore[misc]


def _session_folder(home: DataDir, target: ErasureTarget) -> Path | None:
    """Return the folder of a session. Its id is from events: `..` must not name another folder."""
    folder = home.streams / target.id
    is_own = folder.name == target.id and target.id != ".."
    return folder if target.kind is ErasureKind.SESSION and is_own and folder.is_dir() else None


def _delete_caches(home: DataDir, receipt: ForgetReceipt) -> None:
    """Delete files beside the index: caches of graphs and of the search, and damaged indexes."""
    # With an index in PostgreSQL, a SQLite file is a copy of earlier days.
    prefix = home.index_file.name if home.database_url is None else "index"
    for path in sorted(home.root.glob(f"{prefix}.*")):
        if path.is_file() and path.name != "index.unclean":
            path.unlink(missing_ok=True)
            receipt.deleted_files.append(str(path))


def _list_unreachable(home: DataDir, target: ErasureTarget) -> list[str]:
    places = [
        "Backups and snapshots of this data directory: delete them, or run the same command after a restore.",
        "The producers of the events: an event that they send again is recorded again.",
    ]
    if topic := Checkpoint(home.checkpoint).topic:
        places.append(
            f"The messages of the Kafka topic {topic}: they stay until its retention ends (retention.ms)."
            " Do not use --reset-offsets before."
        )
    if isinstance(home.lake, BucketUrl):
        places.append(f"Versions of deleted objects, if versioning is enabled for the bucket {home.lake.bucket}.")
    if target.kind is ErasureKind.DATASET:
        places.append("The data of the dataset itself: clew only has its lineage.")
    return places


def _read_request(home: DataDir) -> _Request | None:
    try:
        return msgspec.json.decode((home.root / _REQUEST_FILE).read_bytes(), type=_Request)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
