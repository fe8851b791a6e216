"""Facets of events that were taken in raw, filled in afterwards: the newest first, a chunk at a time.

A chunk is planned before anything of it is committed and noted as finished when all of it is, so that one that was
interrupted is done again as it was, under its number: tables that have it refuse it.
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

from clew.home import Home
from clew.index.sink import IndexSink
from clew.lake.delta import Batch, Lake
from clew.lake.files import DataFile, FileWriter
from clew.lake.format import require_lake
from clew.lake.raw_only import Chunk, filled, is_unfilled_anywhere, unfilled
from clew.lake.scan import Span, files_within
from clew.lake.tables import BACKFILLS, FACET_TABLES, LARGE_COLUMNS, LARGE_FACETS, LINEAGE_EVENTS
from clew.pipeline.backfill_worker import BackfillWorker
from clew.pipeline.lock import BACKFILL_LOCK, HeldError, held
from clew.pipeline.refresh import refresh_derived_tables
from clew.pipeline.saying import Say, silently
from clew.pipeline.session import session_for
from clew.pipeline.telling import Told, told_of_parts

APP: Final = "clew-backfill"
CHUNK_BYTES: Final = 128 << 20
_PLAN = "backfill.json"


class Backfilled(Struct):
    """How far a backfill is."""

    chunks: int = 0
    events: int = 0
    left: int = 0
    seconds: float = 0.0
    # Derived tables follow from the facets by now; else they are left to the pipeline that is at work.
    is_refreshed: bool = True


class _Plan(Struct, frozen=True):
    number: int
    first_seq: int
    last_seq: int


Report = Callable[[Backfilled], None]
_decode_plan = msgspec.json.Decoder(_Plan).decode


def backfill(
    home: Home,
    *,
    chunk_bytes: int = CHUNK_BYTES,
    say: Say = silently,
    report: Report = lambda _: None,
    spark: SparkSession | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> Backfilled:
    """Fill in all facets that are missing. Starts Spark only if there are any."""
    require_lake(home.lake)
    with held(home.lake / BACKFILL_LOCK, "backfill") as require_lock:
        lake = Lake(home.lake, require_lock)
        lake.prepare()
        if not is_unfilled_anywhere(lake, filled(lake)):
            return Backfilled()
        say("Starting Spark")
        session = session_for(home, spark, master=master, conf=conf)
        say("Filling facets in")
        with IndexSink(home.index, lake.facet_order) as index:
            done = Backfill(session, lake, index, chunk_bytes=chunk_bytes, report=report)()
        done.is_refreshed = _is_refreshed(session, home, lake, say)
    return done


def _is_refreshed(spark: SparkSession, home: Home, lake: Lake, say: Say) -> bool:
    """Bring the derived tables up to date, unless a pipeline is at work, which will."""
    try:
        with held(home.lake / ".lock"):
            refresh_derived_tables(spark, lake, say)
            return True
    except HeldError:
        return False


class Backfill:
    """Fills the facet tables and the index from `lineage_events`. May go on beside a pipeline."""

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        index: IndexSink,
        *,
        chunk_bytes: int = CHUNK_BYTES,
        report: Report = lambda _: None,
    ) -> None:
        self._spark = spark
        self._lake = lake
        self._index = index
        self._chunk_bytes = chunk_bytes
        self._report = report
        self.done = Backfilled()

    def __call__(self) -> Backfilled:
        """Fill until no event is without its facets, those included that come in meanwhile."""
        started = time.monotonic()
        positions = self._unfilled()
        while positions:
            plan = self._interrupted() or self._planned(positions)
            own = [seq for seq in positions if plan.first_seq <= seq <= plan.last_seq]
            self._fill(plan, own)
            positions = [seq for seq in positions if not plan.first_seq <= seq <= plan.last_seq]
            self.done.chunks += 1
            self.done.events += len(own)
            self.done.left = len(positions)
            self.done.seconds = round(time.monotonic() - started, 3)
            self._report(self.done)
            positions = positions or self._unfilled()
        return self.done

    def _unfilled(self) -> list[int]:
        done = filled(self._lake)
        return unfilled(self._lake, done) if is_unfilled_anywhere(self._lake, done) else []

    def _interrupted(self) -> _Plan | None:
        """The chunk that was begun last, if it was not finished."""
        text = self._lake.storage.read(_PLAN)
        plan = None if text is None else _decode_plan(text)
        return plan if plan is not None and plan.number > self._last_number() else None

    def _planned(self, positions: list[int]) -> _Plan:
        """The newest events that make up a chunk; it reaches down to the next one, so that chunks leave no gaps."""
        last = positions[-1]
        # Positions count bytes of the log.
        older = [seq for seq in positions if seq <= last - self._chunk_bytes]
        first = positions[len(older)]
        below = max(older[-1] if older else -1, filled(self._lake).end_below(first))
        plan = _Plan(self._last_number() + 1, below + 1, last)
        self._lake.storage.replace(_PLAN, msgspec.json.encode(plan))
        return plan

    def _last_number(self) -> int:
        table = self._lake.table(BACKFILLS.name)
        if table is None:
            return -1
        rows = table.to_pyarrow_table(columns=["number"], filesystem=self._lake.storage.filesystem(BACKFILLS.name))
        return max(rows["number"].to_pylist(), default=-1)

    def _fill(self, plan: _Plan, positions: list[int]) -> None:
        batch = Batch(APP, plan.number)
        written = self._write(plan, positions) if positions else Told()
        superfluous = []
        for table in (LARGE_FACETS, *FACET_TABLES):
            own = [file for file in written.files if file.table == table.name]
            if own and not self._lake.append(table.name, table.schema, own, batch):
                superfluous += own
        self._index.apply(str(batch), written.changes)
        self._lake.discard(superfluous)
        self._lake.append(BACKFILLS.name, BACKFILLS.schema, self._note(plan, len(positions)), batch)

    def _write(self, plan: _Plan, positions: list[int]) -> Told:
        """Write the chunk's facets into files, on the workers; nothing is committed yet."""
        files = files_within(self._lake, LINEAGE_EVENTS, Span("seq", plan.first_seq, plan.last_seq))
        parts = _split(positions, self._spark.sparkContext.defaultParallelism)
        order = self._lake.facet_order
        worker = BackfillWorker(str(self._lake.root), files, parts, self._index.dictionary, order)
        return told_of_parts(self._spark, worker, len(parts))

    def _note(self, plan: _Plan, events: int) -> list[DataFile]:
        row = {**msgspec.structs.asdict(plan), "events": events, "finished_at": datetime.now(UTC)}
        writer = FileWriter(str(self._lake.root), LARGE_COLUMNS)
        rows = pa.RecordBatch.from_pylist([row], schema=BACKFILLS.schema)
        return [*writer.add({BACKFILLS.name: rows}), *writer.flush()]


def _split(positions: list[int], count: int) -> list[Chunk]:
    size = -(-len(positions) // count)
    slices = [positions[start : start + size] for start in range(0, len(positions), size)]
    return [Chunk(own[0], own[-1]) for own in slices]
