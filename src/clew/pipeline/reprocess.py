"""Reprocess stored events: backfill facets, rebuild the index, retry rejected events."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import SparkSession

from clew.data_dir import DataDir, IndexLocation
from clew.errors import ClewError
from clew.eventlog.segments import end_position, read_event_ids, split_ranges
from clew.eventlog.writer import IncomingEvent, normalize_body
from clew.events.decoding import RejectedError
from clew.events.ids import event_id
from clew.events.streams import Stream, decode_event
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter, build_and_swap
from clew.lake.backfill_state import (
    EVENT_COLUMNS,
    Chunk,
    decode_raw_events,
    find_pending_positions,
    has_pending_backfill,
    read_backfilled_ranges,
)
from clew.lake.data_files import DataFile, FileWriter
from clew.lake.event_rows import EventTableBuilder
from clew.lake.lake import BatchId, Lake, active_files, replace_files
from clew.lake.manifest import TableDamage, check_integrity, find_damage, require_lake
from clew.lake.refresh_state import has_underived_chunks, reset_refresh_state
from clew.lake.scan import (
    RowGroupPartition,
    ValueRange,
    iter_by_seq,
    plan_partitions,
    prune_files,
    sample_facets,
    scan_range,
)
from clew.lake.schemas import (
    BACKFILLS,
    EVENT_GRAIN_TABLES,
    FACET_TABLES,
    LARGE_COLUMNS,
    LARGE_FACETS,
    LINEAGE_EVENTS,
    REJECTED_EVENTS,
    SOURCE_TABLE_NAMES,
    SOURCE_TABLES,
    Table,
)
from clew.lake.storage import table_names
from clew.pipeline.checkpoint import Checkpoint, open_log, read_ranges
from clew.pipeline.derive.refresh import refresh_derived_tables
from clew.pipeline.ingest import AsyncIndexWriter
from clew.pipeline.locks import BACKFILL_LOCK, PIPELINE_LOCK, LockedError, acquire_lock
from clew.pipeline.progress import ProgressCallback, no_progress
from clew.pipeline.spark.dataframes import map_ordered
from clew.pipeline.spark.session import get_session, translate_spark_errors
from clew.pipeline.worker_reports import SpilledChanges, WorkerReport, run_tasks
from clew.pipeline.workers import (
    BYTES_PER_BATCH,
    EventTask,
    TaskEvent,
    add_rows,
    read_lake_events,
    read_log_events,
    read_raw_only_events,
)

APP_ID: Final = "clew-backfill"
CHUNK_BYTES: Final = 128 << 20
_PLAN = "backfill.json"
# In commit order.
_TABLES: Final = (LARGE_FACETS, *FACET_TABLES)


class BackfillProgress(Struct):
    """Progress of a backfill."""

    chunks: int = 0
    events: int = 0
    remaining: int = 0
    seconds: float = 0.0
    # False if refreshing the derived tables is left to a running pipeline.
    is_derived_refreshed: bool = True


class _ChunkPlan(Struct, frozen=True):
    number: int
    first_seq: int
    last_seq: int


BackfillCallback = Callable[[BackfillProgress], None]
_decode_plan = msgspec.json.Decoder(_ChunkPlan).decode


def run_backfill(
    home: DataDir,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    on_status: ProgressCallback = no_progress,
    on_progress: BackfillCallback = lambda _: None,
    spark: SparkSession | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> BackfillProgress:
    """Backfill all missing facets, and refresh the derived tables if they lack some. Otherwise Spark is not started."""
    require_lake(home.lake)
    with acquire_lock(home.lake / BACKFILL_LOCK, "backfill") as check_lock:
        lake = Lake(home.lake, check_lock)
        lake.create_or_validate()
        if not has_pending_backfill(lake, read_backfilled_ranges(lake)) and not has_underived_chunks(lake):
            return BackfillProgress()
        on_status("Starting Spark")
        session = get_session(home, spark, master=master, conf=conf)
        on_status("Backfilling facets")
        with IndexWriter(home.index, lake.facet_order) as index:
            progress = BackfillRunner(session, lake, index, chunk_bytes=chunk_bytes, on_progress=on_progress)()
        progress.is_derived_refreshed = _refresh_unless_running(session, home, lake, on_status)
    return progress


def _refresh_unless_running(spark: SparkSession, home: DataDir, lake: Lake, on_status: ProgressCallback) -> bool:
    """Refresh the derived tables unless a pipeline is running; return whether they were refreshed."""
    try:
        with acquire_lock(home.lake / PIPELINE_LOCK):
            refresh_derived_tables(spark, lake, on_status)
            return True
    except LockedError:
        return False


class BackfillRunner:
    """Fills the facet tables and the index from `lineage_events`. May run concurrently with a pipeline."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        index: IndexWriter,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        on_progress: BackfillCallback = lambda _: None,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._index = index
        self._chunk_bytes = chunk_bytes
        self._on_progress = on_progress
        self.progress = BackfillProgress()

    def __call__(self) -> BackfillProgress:
        """Backfill until no event lacks its facets, including events ingested in the meantime."""
        started = time.monotonic()
        positions = self._pending_positions()
        while positions:
            plan = self._unfinished_plan() or self._plan_next_chunk(positions)
            in_chunk = [seq for seq in positions if plan.first_seq <= seq <= plan.last_seq]
            self._fill(plan, in_chunk)
            positions = [seq for seq in positions if not plan.first_seq <= seq <= plan.last_seq]
            self.progress.chunks += 1
            self.progress.events += len(in_chunk)
            self.progress.remaining = len(positions)
            self.progress.seconds = round(time.monotonic() - started, 3)
            self._on_progress(self.progress)
            positions = positions or self._pending_positions()
        return self.progress

    def _pending_positions(self) -> list[int]:
        backfilled = read_backfilled_ranges(self._lake)
        return find_pending_positions(self._lake, backfilled) if has_pending_backfill(self._lake, backfilled) else []

    def _unfinished_plan(self) -> _ChunkPlan | None:
        """Return the plan of a chunk that was started but not finished."""
        text = self._lake.storage.read(_PLAN)
        plan = None if text is None else _decode_plan(text)
        return plan if plan is not None and plan.number > self._last_number() else None

    def _plan_next_chunk(self, positions: list[int]) -> _ChunkPlan:
        """Plan and save the chunk of the newest events; it extends down to the next pending event, without gaps."""
        last = positions[-1]
        # Positions are byte offsets in the log.
        older = [seq for seq in positions if seq <= last - self._chunk_bytes]
        first = positions[len(older)]
        previous = max(older[-1] if older else -1, read_backfilled_ranges(self._lake).previous_end(first))
        plan = _ChunkPlan(self._last_number() + 1, previous + 1, last)
        self._lake.storage.replace(_PLAN, msgspec.json.encode(plan))
        return plan

    def _last_number(self) -> int:
        table = self._lake.table(BACKFILLS.name)
        if table is None:
            return -1
        rows = table.to_pyarrow_table(columns=["number"], filesystem=self._lake.storage.filesystem(BACKFILLS.name))
        return max(rows["number"].to_pylist(), default=-1)

    def _fill(self, plan: _ChunkPlan, positions: list[int]) -> None:
        batch = BatchId(APP_ID, plan.number)
        written = self._write(plan, positions) if positions else WorkerReport()
        duplicate_files = self._lake.append_tables(_TABLES, written.files, batch)
        # The event ids are in the index since they were ingested.
        written.changes.events = []
        self._index.apply(str(batch), written.changes, SpilledChanges(written.spilled))
        self._lake.delete_uncommitted(duplicate_files)
        self._lake.append(BACKFILLS.name, BACKFILLS.schema, self._record_chunk(plan, len(positions)), batch)

    def _write(self, plan: _ChunkPlan, positions: list[int]) -> WorkerReport:
        """Write the facets of the chunk to files on the workers, without committing them."""
        files = prune_files(self._lake, LINEAGE_EVENTS, ValueRange("seq", plan.first_seq, plan.last_seq))
        chunks = _split(positions, self._spark.sparkContext.defaultParallelism)
        root = str(self._lake.root)
        read = partial(read_raw_only_events, root=root, files=files, chunks=chunks)
        task = EventTask(root, read, self._index.dictionary, self._lake.facet_order, [table.name for table in _TABLES])
        return run_tasks(self._spark, task, len(chunks))

    def _record_chunk(self, plan: _ChunkPlan, events: int) -> list[DataFile]:
        row = {**msgspec.structs.asdict(plan), "events": events, "finished_at": datetime.now(UTC)}
        writer = FileWriter(str(self._lake.root), LARGE_COLUMNS)
        rows = pa.RecordBatch.from_pylist([row], schema=BACKFILLS.schema)
        return [*writer.add({BACKFILLS.name: rows}), *writer.flush()]


def _split(positions: list[int], count: int) -> list[Chunk]:
    size = -(-len(positions) // count)
    slices = [positions[start : start + size] for start in range(0, len(positions), size)]
    return [Chunk(part[0], part[-1]) for part in slices]


BATCH_PREFIX: Final = "rebuild"


def rebuild_index(
    spark: SparkSession, lake: Lake, location: IndexLocation, on_progress: ProgressCallback = no_progress
) -> None:
    """Build a new index and swap it in; an existing index stays readable until then."""
    with build_and_swap(location, lake.facet_order) as index:
        load_index(spark, lake, index, on_progress)


def load_index(
    spark: SparkSession, lake: Lake, index: IndexWriter, on_progress: ProgressCallback = no_progress
) -> None:
    """Load all events of the lake into an index; existing rows are preserved."""
    # Read first: a chunk that is finished later is written to the index by the backfill itself.
    backfilled = read_backfilled_ranges(lake)
    index.train_dictionary(sample_facets(lake))

    def extract_changes(partition: RowGroupPartition) -> WorkerReport:
        read = partial(read_lake_events, partitions=[partition], backfilled=backfilled)
        return run_tasks(spark, EventTask(str(lake.root), read, index.dictionary, lake.facet_order), 1)

    partitions = plan_partitions(lake, spark.sparkContext.defaultParallelism)
    count = 0
    with translate_spark_errors(), AsyncIndexWriter(index) as writer:
        for number, report in enumerate(map_ordered(extract_changes, partitions, spark)):
            writer.apply(f"{BATCH_PREFIX}/{number}", report.changes, SpilledChanges(report.spilled))
            count += len(report.changes.events) + len(report.changes.rejected)
            on_progress(f"Rebuilding the index from the lake: {count:,} events")


# An event may be 10 MB.
_ROWS_PER_BATCH = 64
_BYTES_PER_RANGE = 16 << 20
_NO_POSITION = -1
_MAX_POSITION: Final = 2**63 - 2


@dataclass
class ReplayStats:
    """Counters of a replay."""

    replayed: int = 0
    still_rejected: int = 0
    already_ingested: int = 0
    already_queued: int = 0


class ReplayLog(Protocol):
    """Where events are replayed to: the event log, or a Kafka topic."""

    def append_duplicates(self, events: Iterable[IncomingEvent]) -> int:
        """Store events and return their number."""


def replay_rejected_events(home: DataDir, reason: str | None = None) -> ReplayStats:
    """Append rejected events that can be decoded now to the log; the next run ingests them."""
    check_integrity(home.lake)
    if topic := Checkpoint(home.checkpoint).topic:
        message = f"The pipeline reads the Kafka topic {topic}, not the event log."
        raise ClewError(message, hint=f"Pass --kafka BROKERS --topic {topic}: the events are produced to it.")
    with open_log(home) as log, IndexReader(home.index) as index:
        # Read first: an event ingested from here on is either after this position or in the index.
        queued = _queued_event_ids(home, log.position, int(index.meta("indexed_seq") or _NO_POSITION))
        return replay_events(home, reason, log, index, queued)


def replay_events(
    home: DataDir, reason: str | None, log: ReplayLog, index: IndexReader, queued: set[str]
) -> ReplayStats:
    """Append rejected events that can be decoded now, unless they are `queued` already."""
    stats = ReplayStats()
    for row in _rejected_rows(Lake(home.lake), reason):
        identity = event_id(normalize_body(row["body"]))
        if index.has_event(identity):
            stats.already_ingested += 1
        elif identity in queued:
            stats.already_queued += 1
        elif _can_decode(row):
            event = IncomingEvent(_stream(row["stream"]), row["source"], row["body"])
            stats.replayed += log.append_duplicates([event])
            queued.add(identity)
        else:
            stats.still_rejected += 1
    return stats


def _queued_event_ids(home: DataDir, end: int, last: int) -> set[str]:
    """Return the ids of the events in the log after position `last`."""
    parts = split_ranges(home.log, last + 1, end, _BYTES_PER_RANGE)
    return {identity for part in parts for identity in read_event_ids(part)}


def _rejected_rows(lake: Lake, reason: str | None) -> Iterator[dict[str, Any]]:
    table = lake.table(REJECTED_EVENTS.name)
    if table is not None:
        condition = None if reason is None else pc.field("reason") == reason
        rows = table.to_pyarrow_dataset(filesystem=lake.storage.filesystem(REJECTED_EVENTS.name))
        for batch in rows.to_batches(filter=condition, batch_size=_ROWS_PER_BATCH):
            yield from batch.to_pylist()


def _can_decode(row: dict[str, Any]) -> bool:
    try:
        decode_event(row["stream"], row["body"])
    except RejectedError:
        return False
    return True


def _stream(name: str) -> Stream:
    """Return the stream of that name; OpenLineage if it is unknown."""
    return next((stream for stream in Stream if stream == name), Stream.OPENLINEAGE)


class TableRepair(Struct, frozen=True):
    """Repair of a table: its damage, the rows that were written again, and what is lost.

    A derived table is deleted: the next pipeline writes it.
    """

    table: str
    damage: str
    rows: int = 0
    lost: str | None = None
    is_derived: bool = False


def repair_lake(home: DataDir, on_progress: ProgressCallback = no_progress) -> list[TableRepair]:
    """Repair damaged tables without Spark; the next pipeline rebuilds the index and the derived tables.

    Rows of events are re-created from the log, rows of facets from the events.
    """
    require_lake(home.lake)
    root = home.lake_folder
    with acquire_lock(root / PIPELINE_LOCK) as check_lock, acquire_lock(root / BACKFILL_LOCK, "backfill"):
        names = dict.fromkeys((*EVENT_GRAIN_TABLES, *SOURCE_TABLE_NAMES, *table_names(root)))
        damages = {name: damage for name in names if (damage := find_damage(root / name)) is not None}
        if not damages:
            return []
        lake, repairs = Lake(root, check_lock), []
        # First, so that the next pipeline completes an interrupted repair.
        reset_refresh_state(lake)
        Checkpoint(home.checkpoint).request_reindex()
        for name, damage in damages.items():
            on_progress(f"Repairing the table {name}")
            table = next((table for table in SOURCE_TABLES if table.name == name), None)
            if table is None:
                shutil.rmtree(root / name)
                repairs.append(TableRepair(name, damage.message, is_derived=True))
            else:
                repairs.append(_TableRepairer(home, lake, table, damage).run())
        return repairs


class _TableRepairer:
    """Writes missing rows of a table again, and replaces its Delta log if that is damaged."""

    def __init__(self, home: DataDir, lake: Lake, table: Table, damage: TableDamage) -> None:
        self._home = home
        self._lake = lake
        self._table = table
        self._damage = damage
        self._key = next(name for name in ("uuid", "event_id", "number") if name in table.schema.names)
        self._writer = FileWriter(str(lake.root), LARGE_COLUMNS)
        self._files: list[DataFile] = []

    def run(self) -> TableRepair:
        """Repair the table."""
        lost = self._replace_files() if self._damage.files else self._replace_log()
        return TableRepair(self._table.name, self._damage.message, sum(file.rows for file in self._files), lost)

    def _replace_files(self) -> str | None:
        """Replace the damaged files by files with the same rows; return the lost rows."""
        delta = self._lake.require_table(self._table.name)
        damaged = [file for file in active_files(delta) if unquote(file.name) in self._damage.files]
        actions = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
        statistics = [action for action in actions if unquote(action["path"]) in self._damage.files]
        low = min(action.get("min.seq") or 0 for action in statistics)
        highest = [action.get("max.seq") for action in statistics]
        high = max(_MAX_POSITION if position is None else position for position in highest)
        kept = [path for path in self._lake.files(self._table.name) if Path(path).name not in self._damage.files]
        self._write_missing({key for path in kept for key in self._keys(_read_file(path, [self._key]))}, low, high)
        replace_files(self._lake, self._table.name, damaged, self._files, is_data_change=True)
        expected, found = (
            sum(action["num_records"] or 0 for action in statistics),
            sum(file.rows for file in self._files),
        )
        return f"{expected - found:,} of {expected:,} rows" if found < expected else None

    def _replace_log(self) -> str | None:
        """Create the table again, from its readable files and what its Delta log still says; return the lost events."""
        checkpoint = Checkpoint(self._home.checkpoint)
        # An uncommitted batch is repeated: its rows are left out.
        end = checkpoint.committed_offset or _MAX_POSITION
        old = self._lake.recreate_table(self._table)
        known: set[Any] = set()
        for path in old.files:
            rows = _read_file(path)
            if rows is not None:
                is_committed = pc.field("seq") < end if "seq" in rows.schema.names else pc.scalar(value=True)
                self._add_new(rows.filter(is_committed), known)
        self._write_missing(known, 0, end - 1)
        transactions = old.transactions
        if checkpoint.stored_app_id and checkpoint.last_committed_batch >= 0:
            transactions[checkpoint.stored_app_id] = checkpoint.last_committed_batch
        self._lake.append_recovered(self._table, self._files, transactions)
        return self._find_lost_events() if self._table.name in EVENT_GRAIN_TABLES else None

    def _find_lost_events(self) -> str | None:
        """Compare the number of events with that of the index."""
        try:
            with IndexReader(self._home.index) as index:
                indexed = index.count("select count(*) from events") + index.rejected_count()
        except (ClewError, sqlite3.Error):
            return None
        names = [name for name in EVENT_GRAIN_TABLES if find_damage(self._lake.root / name) is None]
        if len(names) < len(EVENT_GRAIN_TABLES):
            return None
        stored = sum(self._lake.require_table(name).count() for name in names)
        return f"{indexed - stored:,} events" if stored < indexed else None

    def _keys(self, rows: pa.Table | None) -> list[Any]:
        return [] if rows is None else rows[self._key].to_pylist()

    def _add_new(self, rows: pa.Table, known: set[Any]) -> None:
        """Write the rows whose key is not known yet."""
        is_new = []
        for key in self._keys(rows):
            is_new.append(key not in known)
            known.add(key)
        schema = self._table.schema
        columns = [rows[name].cast(schema.field(name).type) for name in rows.schema.names if name in schema.names]
        present = pa.schema([schema.field(name) for name in rows.schema.names if name in schema.names])
        for batch in pa.table(columns, schema=present).filter(pa.array(is_new, pa.bool_())).to_batches():
            self._files += self._writer.add({self._table.name: batch})

    def _write_missing(self, known: set[Any], low: int, high: int) -> None:
        """Write the rows of events between two positions that the table lacks."""
        builder, buffered_bytes = EventTableBuilder(), 0
        for item in self._read_events(low, high):
            add_rows(builder, item)
            buffered_bytes += len(item.origin.body or b"")
            if buffered_bytes >= BYTES_PER_BATCH:
                self._drain(builder, known)
                buffered_bytes = 0
        self._drain(builder, known)
        self._files += self._writer.flush()

    def _drain(self, builder: EventTableBuilder, known: set[Any]) -> None:
        batch = builder.drain().get(self._table.name)
        if batch is not None:
            self._add_new(pa.Table.from_batches([batch]), known)

    def _read_events(self, low: int, high: int) -> Iterator[TaskEvent]:
        if self._table.name in EVENT_GRAIN_TABLES:
            parts = split_ranges(self._home.log, low, min(high + 1, end_position(self._home.log)), _BYTES_PER_RANGE)
            ranges = pa.RecordBatch.from_pylist([asdict(part) for part in parts])
            return read_log_events(iter([ranges]), raw_only_ranges=read_ranges(self._home.checkpoint))
        return iter(()) if self._table.name == BACKFILLS.name else self._read_events_with_facets(low, high)

    def _read_events_with_facets(self, low: int, high: int) -> Iterator[TaskEvent]:
        backfilled = read_backfilled_ranges(self._lake)
        value_range = ValueRange("seq", low, high)
        scanner = scan_range(self._lake, LINEAGE_EVENTS, value_range).scanner(
            columns=[*EVENT_COLUMNS, "is_raw_only"], filter=value_range.filter(), batch_size=_ROWS_PER_BATCH
        )
        for batch in scanner.to_batches():
            for row in iter_by_seq(pa.Table.from_batches([batch])):
                if not row["is_raw_only"] or backfilled.covers(row["seq"], row["seq"]):
                    yield from (TaskEvent(event, received) for event, received in decode_raw_events([row]))


def _read_file(path: str, columns: list[str] | None = None) -> pa.Table | None:
    """Read a data file; None if it is damaged."""
    try:
        return pq.ParquetFile(path).read(columns)
    except (OSError, pa.ArrowException):
        return None
