"""Reprocess stored events: backfill facets, rebuild the index, retry rejected events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import SparkSession

from clew.data_dir import DataDir, IndexLocation
from clew.errors import ClewError
from clew.eventlog.segments import read_event_ids, split_ranges
from clew.eventlog.writer import IncomingEvent, normalize_body
from clew.events.decoding import RejectedError
from clew.events.ids import event_id
from clew.events.streams import Stream, decode_event
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter, build_and_swap
from clew.lake.backfill_state import (
    Chunk,
    find_pending_positions,
    has_pending_backfill,
    read_backfilled_ranges,
)
from clew.lake.data_files import DataFile, FileWriter
from clew.lake.lake import BatchId, Lake
from clew.lake.manifest import check_integrity, require_lake
from clew.lake.refresh_state import has_underived_chunks
from clew.lake.scan import (
    RowGroupPartition,
    ValueRange,
    plan_partitions,
    prune_files,
    sample_facets,
)
from clew.lake.schemas import (
    BACKFILLS,
    FACET_TABLES,
    LARGE_COLUMNS,
    LARGE_FACETS,
    LINEAGE_EVENTS,
    REJECTED_EVENTS,
)
from clew.pipeline.checkpoint import Checkpoint, open_log
from clew.pipeline.derive.refresh import refresh_derived_tables
from clew.pipeline.ingest import AsyncIndexWriter
from clew.pipeline.locks import BACKFILL_LOCK, PIPELINE_LOCK, LockedError, acquire_lock
from clew.pipeline.spark.dataframes import map_ordered
from clew.pipeline.spark.session import get_session, translate_spark_errors
from clew.pipeline.worker_reports import SpilledChanges, WorkerReport, run_tasks
from clew.pipeline.workers import (
    EventTask,
    read_lake_events,
    read_raw_only_events,
)
from clew.progress import ProgressCallback, no_progress

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
        session = get_session(home, spark, master=master, conf=conf, on_progress=on_status)
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
        self._lake.append_tables([BACKFILLS], self._record_chunk(plan, len(positions)), batch)

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
