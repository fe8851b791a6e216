"""The pipeline at work: log in, lake and index out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Event

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from clew.errors import ClewError
from clew.events.facet_order import FacetOrder
from clew.home import Home
from clew.index.sink import IndexSink
from clew.lake.delta import Lake
from clew.lake.raw_only import filled
from clew.pipeline import source
from clew.pipeline.agreement import require_agreement
from clew.pipeline.caretaker import Care, Cared, Caretaker
from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.faults import RETRY, sentence_of
from clew.pipeline.ingest import Ingest, Ingested
from clew.pipeline.lock import BACKFILL_LOCK, held
from clew.pipeline.raw_spans import beyond, choose
from clew.pipeline.rebuild import feed_index, rebuild_index
from clew.pipeline.refresh import refresh_derived_tables
from clew.pipeline.retention import drop_log
from clew.pipeline.saying import Say, silently
from clew.pipeline.session import session_for
from clew.pipeline.warmth import warm_up
from clew.pipeline.watch import Listener, Watch

_POLL_SECONDS = 0.2
_STREAM_TRIGGER = "500 milliseconds"


@dataclass(frozen=True)
class Pipeline:
    """A session, a lake and an index that belong together."""

    spark: SparkSession
    home: Home
    lake: Lake
    index: IndexSink
    say: Say
    bytes_per_trigger: int | None = None
    listeners: tuple[Listener, ...] = ()
    # Facets of lineage events are left to a backfill.
    is_raw_only: bool = False

    def take_available(self) -> Ingested:
        """Take in all that the log holds beyond the last position, and bring the derived tables up to date."""
        taken = self.take_new()
        self.refresh()
        return taken

    def refresh(self) -> None:
        """Bring the derived tables up to date, unless they are."""
        refresh_derived_tables(self.spark, self.lake, self.say)

    def take_new(self) -> Ingested:
        """Take in all that the log holds beyond the last position; derived tables stay as they are."""
        with self._ingest() as ingest:
            _await(self._query(ingest, availableNow=True))
        return ingest.taken

    def stream(
        self,
        stop: Event,
        meanwhile: Callable[[], object] = lambda: None,
        care: Care | None = None,
        cared: Cared | None = None,
    ) -> Ingested:
        """Take in what is appended to the log until told to stop; `meanwhile` is called again and again.

        With `care`, a thread beside the stream keeps the lake tidy, and counts in `cared` what it has done.
        """
        warm_up(self.spark)
        with self._ingest() as ingest, nullcontext() if care is None else self._caretaker(care, cared):
            query = self._query(ingest, processingTime=_STREAM_TRIGGER)
            while not stop.wait(_POLL_SECONDS) and query.isActive:
                meanwhile()
            query.stop()
            _await(query)
        self.refresh()
        return ingest.taken

    def _caretaker(self, care: Care, cared: Cared | None) -> Caretaker:
        def refresh(lake: Lake) -> bool:
            # Kept apart from the stream's own jobs, which then need not wait for it.
            self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "upkeep")
            return refresh_derived_tables(self.spark, lake)

        return Caretaker(self.lake.root, refresh, self.say, care, cared, partial(drop_log, self.home))

    def _ingest(self) -> Ingest:
        checkpoint = Checkpoint(self.home.checkpoint)
        chosen = choose(checkpoint.root, checkpoint.begun_position, is_raw_only=self.is_raw_only)
        # What a backfill has passed is no longer raw, should it come once more.
        raw_spans = beyond(filled(self.lake).end, chosen)
        ingest = Ingest(self.lake, self.index, checkpoint.app, raw_spans=raw_spans)
        self._catch_up(checkpoint, ingest)
        return ingest

    def _catch_up(self, checkpoint: Checkpoint, ingest: Ingest) -> None:
        """Give the index the batches that are done for Spark and did not reach it before a crash."""
        done = checkpoint.last_done
        indexed = self.index.last_batch(checkpoint.app)
        for number in range(done if indexed is None else indexed, done):
            start, end = checkpoint.end_of(number), checkpoint.end_of(number + 1)
            if start is None or end is None:
                feed_index(self.spark, self.lake, self.index)
                break
            reader = self._reader.option("start", start).option("end", end)
            ingest(reader.load(str(self.home.log)), number + 1)
        ingest.settle()
        self.index.note_batch(checkpoint.app, done)

    @property
    def _cores(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    @property
    def _reader(self) -> DataFrameReader:
        return self.spark.read.format(source.NAME).option("cores", self._cores)

    def _query(self, ingest: Ingest, **trigger: bool | str) -> StreamingQuery:
        self.home.log.mkdir(parents=True, exist_ok=True)
        reader = self.spark.readStream.format(source.NAME).option("cores", self._cores)
        if self.bytes_per_trigger is not None:
            reader = reader.option("bytesPerTrigger", self.bytes_per_trigger)
        events = reader.load(str(self.home.log))
        checkpoint = Checkpoint(self.home.checkpoint)
        watch = Watch(ingest, checkpoint, self.listeners)
        writer = events.writeStream.foreachBatch(watch).option("checkpointLocation", str(checkpoint.folder))
        return writer.trigger(**trigger).start()  # type: ignore[arg-type]


@contextmanager
def open_pipeline(
    home: Home,
    *,
    say: Say = silently,
    spark: SparkSession | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    listeners: tuple[Listener, ...] = (),
    facet_order: FacetOrder | None = None,
    is_rebuilt: bool = False,
) -> Iterator[Pipeline]:
    """Prepare lake and index, start Spark unless a session is given, and hold the lake's lock.

    An index that is lost, or shall be rebuilt, is built anew from the lake; until that is done the old one answers.
    """
    home.create()
    with held(home.lake / ".lock") as require_lock:
        lake = Lake(home.lake, require_lock)
        lake.prepare(facet_order)
        must_be_built = is_rebuilt or _is_lost(home, lake)
        say("Starting Spark")
        session = session_for(home, spark, master=master, conf=conf)
        if must_be_built:
            with held(home.lake / BACKFILL_LOCK, "backfill"):
                rebuild_index(session, lake, home.index, say)
        with IndexSink(home.index, lake.facet_order) as index:
            yield Pipeline(session, home, lake, index, say, listeners=listeners)


def _is_lost(home: Home, lake: Lake) -> bool:
    with IndexSink(home.index, lake.facet_order) as index:
        require_agreement(home, lake, index)
        return index.event_count == 0 and any(lake.row_counts().values())


def _await(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    except StreamingQueryException as fault:
        cause = query.exception()
        raise ClewError(f"The pipeline stopped: {sentence_of(str(cause or fault))}", hint=RETRY) from fault
