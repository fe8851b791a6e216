"""Backfill of the facets of raw-only events, newest first, one chunk at a time.

The plan of a chunk is saved before anything is committed, and the chunk is recorded in `backfills` when all tables are
committed. An interrupted chunk is repeated under its number; tables that already have it skip it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import SparkSession

from clew.home import DataDir
from clew.index.sink import IndexWriter
from clew.lake.delta import BatchId, Lake
from clew.lake.files import DataFile, FileWriter
from clew.lake.format import require_lake
from clew.lake.raw_only import Chunk, find_pending_positions, has_pending_backfill, read_backfilled_ranges
from clew.lake.scan import ValueRange, prune_files
from clew.lake.tables import BACKFILLS, FACET_TABLES, LARGE_COLUMNS, LARGE_FACETS, LINEAGE_EVENTS
from clew.pipeline.backfill_worker import BackfillWorker
from clew.pipeline.lock import BACKFILL_LOCK, LockedError, acquire_lock
from clew.pipeline.refresh import refresh_derived_tables
from clew.pipeline.saying import ProgressCallback, no_progress
from clew.pipeline.session import get_session
from clew.pipeline.telling import WorkerReport, run_tasks

APP_ID: Final = "clew-backfill"
CHUNK_BYTES: Final = 128 << 20
_PLAN = "backfill.json"


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
    """Backfill all missing facets. Starts Spark only if there are any."""
    require_lake(home.lake)
    with acquire_lock(home.lake / BACKFILL_LOCK, "backfill") as check_lock:
        lake = Lake(home.lake, check_lock)
        lake.create_or_validate()
        if not has_pending_backfill(lake, read_backfilled_ranges(lake)):
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
        with acquire_lock(home.lake / ".lock"):
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
        duplicate_files = []
        for table in (LARGE_FACETS, *FACET_TABLES):
            files = [file for file in written.files if file.table == table.name]
            if files and not self._lake.append(table.name, table.schema, files, batch):
                duplicate_files += files
        self._index.apply(str(batch), written.changes)
        self._lake.delete_uncommitted(duplicate_files)
        self._lake.append(BACKFILLS.name, BACKFILLS.schema, self._record_chunk(plan, len(positions)), batch)

    def _write(self, plan: _ChunkPlan, positions: list[int]) -> WorkerReport:
        """Write the facets of the chunk to files on the workers, without committing them."""
        files = prune_files(self._lake, LINEAGE_EVENTS, ValueRange("seq", plan.first_seq, plan.last_seq))
        chunks = _split(positions, self._spark.sparkContext.defaultParallelism)
        order = self._lake.facet_order
        worker = BackfillWorker(str(self._lake.root), files, chunks, self._index.dictionary, order)
        return run_tasks(self._spark, worker, len(chunks))

    def _record_chunk(self, plan: _ChunkPlan, events: int) -> list[DataFile]:
        row = {**msgspec.structs.asdict(plan), "events": events, "finished_at": datetime.now(UTC)}
        writer = FileWriter(str(self._lake.root), LARGE_COLUMNS)
        rows = pa.RecordBatch.from_pylist([row], schema=BACKFILLS.schema)
        return [*writer.add({BACKFILLS.name: rows}), *writer.flush()]


def _split(positions: list[int], count: int) -> list[Chunk]:
    size = -(-len(positions) // count)
    slices = [positions[start : start + size] for start in range(0, len(positions), size)]
    return [Chunk(part[0], part[-1]) for part in slices]
