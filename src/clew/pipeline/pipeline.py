"""The pipeline: ingest events from the log once or continuously, and refresh derived tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import tail_checksum
from clew.events.facets import FacetOrder
from clew.index.writer import IndexWriter
from clew.lake.backfill_state import read_backfilled_ranges
from clew.lake.lake import Lake
from clew.pipeline.checkpoint import (
    NO_BATCH,
    BatchRecord,
    Checkpoint,
    SourceOffset,
    append_batch_record,
    ranges_after,
    update_ranges,
)
from clew.pipeline.derive.refresh import refresh_derived_tables
from clew.pipeline.ingest import BatchIngestor, IngestStats
from clew.pipeline.locks import BACKFILL_LOCK, PIPELINE_LOCK, acquire_lock
from clew.pipeline.maintenance import BackgroundMaintenance, MaintenanceConfig, MaintenanceStats, expire_log_segments
from clew.pipeline.preflight import check_consistency, recover_index, repair_checkpoint
from clew.pipeline.reprocess import load_index, rebuild_index
from clew.pipeline.sources.event_source import LOG, EventSource
from clew.pipeline.spark.cluster import ApplicationRecorder, record_application
from clew.pipeline.spark.dataframes import local_uri
from clew.pipeline.spark.session import RETRY_HINT, get_session, root_cause, translate_spark_errors, warm_up
from clew.progress import ProgressCallback, no_progress

BatchListener = Callable[[BatchRecord], None]


class BatchRecorder:
    """Ingests batches, appends them to the batch history and notifies the listeners."""

    def __init__(
        self, ingestor: BatchIngestor, checkpoint: Checkpoint, log: Path, listeners: Sequence[BatchListener] = ()
    ) -> None:
        self._ingestor = ingestor
        self._log = log
        self._checkpoint = checkpoint
        self._listeners = listeners

    def __call__(self, ranges: DataFrame, number: int) -> None:
        """Ingest one batch and record it."""
        self._checkpoint.record_plan(number)
        before, started = deepcopy(self._ingestor.stats), time.monotonic()
        self._ingestor(ranges, number)
        batch = self._record(number, before, time.monotonic() - started)
        append_batch_record(self._checkpoint.root, batch)
        for listener in self._listeners:
            listener(batch)

    def _record(self, number: int, before: IngestStats, seconds: float) -> BatchRecord:
        after = self._ingestor.stats
        offset = self._checkpoint.batch_offset(number) or SourceOffset(0)
        return BatchRecord(
            app_id=self._checkpoint.app_id,
            number=number,
            committed_at_ms=int(time.time() * 1000),
            seconds=round(seconds, 3),
            events=after.events - before.events,
            rejected=after.rejected - before.rejected,
            duplicates=after.duplicates - before.duplicates,
            rows={name: rows - before.rows.get(name, 0) for name, rows in after.rows.items()},
            end_offset=offset.position,
            corrupt_records=after.corrupt_records - before.corrupt_records,
            log_tail=None if offset.topic else tail_checksum(self._log, offset.position),
            source=offset if offset.topic else None,
        )


_POLL_SECONDS = 0.2
_STREAM_TRIGGER = "500 milliseconds"
_DRAIN_SECONDS = 4.0


@dataclass(frozen=True)
class Pipeline:
    """A Spark session with the lake and index of a data directory."""

    spark: SparkSession
    home: DataDir
    lake: Lake
    index: IndexWriter
    on_progress: ProgressCallback
    bytes_per_trigger: int | None = None
    listeners: tuple[BatchListener, ...] = ()
    # Facets of lineage events are added later by a backfill.
    is_raw_only: bool = False
    source: EventSource = LOG

    def run(self) -> IngestStats:
        """Ingest all available events and refresh the derived tables."""
        stats = self.ingest_available()
        self.refresh()
        return stats

    def refresh(self) -> None:
        """Refresh the derived tables if they are stale."""
        refresh_derived_tables(self.spark, self.lake, self.on_progress)

    def ingest_available(self) -> IngestStats:
        """Ingest all available events without refreshing the derived tables."""
        with translate_spark_errors(), self._open_ingestor() as ingestor:
            _await(self._query(ingestor, availableNow=True))
        return ingestor.stats

    def stream(
        self,
        stop: Event,
        on_poll: Callable[[], object] = lambda: None,
        maintenance: MaintenanceConfig | None = None,
        maintenance_stats: MaintenanceStats | None = None,
    ) -> IngestStats:
        """Ingest continuously until `stop` is set; `on_poll` is called every 0.2 seconds.

        With `maintenance`, the lake is maintained in the background, counted in `maintenance_stats`. At a stop, the
        events that are in the log are ingested for a few seconds. Derived tables are not refreshed then: that may take
        minutes.
        """
        with translate_spark_errors():
            warm_up(self.spark)
        with (
            translate_spark_errors(),
            self._open_ingestor() as ingestor,
            nullcontext() if maintenance is None else self._background_maintenance(maintenance, maintenance_stats),
        ):
            query = self._query(ingestor, processingTime=_STREAM_TRIGGER)
            update_application = ApplicationRecorder(self.home, self.spark)
            while not stop.wait(_POLL_SECONDS) and query.isActive:
                on_poll()
                update_application()
            self._drain(query)
            query.stop()
            _await(query)
        return ingestor.stats

    def _drain(self, query: StreamingQuery) -> None:
        """Wait until the events that are in the log now are ingested, for a few seconds at most."""
        end, deadline = self.source.end_position(self.home), time.monotonic() + _DRAIN_SECONDS
        checkpoint = Checkpoint(self.home.checkpoint)
        while query.isActive and checkpoint.committed_offset < end and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _background_maintenance(
        self, config: MaintenanceConfig, stats: MaintenanceStats | None
    ) -> BackgroundMaintenance:
        def refresh(lake: Lake) -> bool:
            # A separate pool, so that batches do not wait for the refresh.
            self.spark.sparkContext.setLocalProperty("spark.scheduler.pool", "maintenance")
            return refresh_derived_tables(self.spark, lake)

        def cancel() -> None:
            # The JVM may be dead: that is reported by the stream.
            with suppress(Py4JError, OSError):
                self.spark.sparkContext.cancelAllJobs()

        return BackgroundMaintenance(
            self.lake.root,
            refresh,
            self.on_progress,
            config,
            stats,
            partial(expire_log_segments, self.home),
            cancel,
        )

    def _open_ingestor(self) -> BatchIngestor:
        checkpoint = Checkpoint(self.home.checkpoint)
        if self.source is LOG:
            LOG.check_checkpoint(checkpoint)
        ranges = update_ranges(checkpoint.root, checkpoint.planned_offset, is_raw_only=self.is_raw_only)
        # Ranges that are backfilled are ingested with facets if they are repeated.
        last = read_backfilled_ranges(self.lake).end
        read = self.source.event_reader(last)
        ingestor = BatchIngestor(self.lake, self.index, checkpoint.app_id, ranges_after(last, ranges), read)
        self._index_missed_batches(checkpoint, ingestor)
        return ingestor

    def _index_missed_batches(self, checkpoint: Checkpoint, ingestor: BatchIngestor) -> None:
        """Write batches to the index that are committed in the checkpoint but missed the index because of a crash."""
        committed = checkpoint.last_committed_batch
        indexed = self.index.last_batch(checkpoint.app_id)
        for number in range(committed if indexed is None else indexed, committed):
            start, end = checkpoint.batch_offset(number), checkpoint.batch_offset(number + 1)
            if number == NO_BATCH:
                start = SourceOffset(0)
            if start is None or end is None:
                load_index(self.spark, self.lake, self.index)
                break
            ingestor(self.source.load(self.spark, self.home, start, end), number + 1)
        ingestor.flush()
        self.index.record_batch(checkpoint.app_id, committed)

    def _query(self, ingestor: BatchIngestor, **trigger: bool | str) -> StreamingQuery:
        events = self.source.load_stream(self.spark, self.home, self.bytes_per_trigger)
        checkpoint = Checkpoint(self.home.checkpoint)
        recorder = BatchRecorder(ingestor, checkpoint, self.home.log, self.listeners)
        writer = events.writeStream.foreachBatch(recorder).option("checkpointLocation", local_uri(checkpoint.folder))
        return writer.trigger(**trigger).start()  # type: ignore[arg-type]


@contextmanager
def open_pipeline(  # noqa: PLR0913
    home: DataDir,
    *,
    on_progress: ProgressCallback = no_progress,
    spark: SparkSession | None = None,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    listeners: tuple[BatchListener, ...] = (),
    facet_order: FacetOrder | None = None,
    rebuild: bool = False,
    source: EventSource | None = None,
) -> Iterator[Pipeline]:
    """Open lake and index, start Spark unless a session is given, and hold the lake's lock.

    A missing index is rebuilt from the lake, as is an existing one with `rebuild`; it stays readable until then.
    Without a source, the log is read, and a checkpoint of a topic is left as it is: nothing can be ingested then.
    """
    home.create()
    with acquire_lock(home.lake / PIPELINE_LOCK) as check_lock, recover_index(home, on_progress):
        lake = Lake(home.lake, check_lock)
        lake.create_or_validate(facet_order)
        checkpoint = Checkpoint(home.checkpoint)
        if source is not None or not checkpoint.topic:
            repair_checkpoint(home, lake, on_progress, (source or LOG).restart_offset)
        if source is not None:
            source.prepare_checkpoint(home, lake, on_progress)
        must_rebuild = rebuild or checkpoint.must_reindex or _index_is_missing(home, lake)
        on_progress("Starting Spark")
        needs_log = (source or LOG) is LOG and not checkpoint.topic
        session = get_session(home, spark, master=master, conf=conf, needs_log=needs_log, on_progress=on_progress)
        if must_rebuild:
            with acquire_lock(home.lake / BACKFILL_LOCK, "backfill"):
                rebuild_index(session, lake, home.index, on_progress)
            checkpoint.record_reindex()
        with IndexWriter(home.index, lake.facet_order) as index, record_application(home, session):
            yield Pipeline(session, home, lake, index, on_progress, listeners=listeners, source=source or LOG)


def _index_is_missing(home: DataDir, lake: Lake) -> bool:
    with IndexWriter(home.index, lake.facet_order) as index:
        check_consistency(home, lake, index)
        return index.event_count == 0 and any(lake.row_counts().values())


def _await(query: StreamingQuery) -> None:
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        cause = query.exception()
        raise ClewError(f"The pipeline stopped: {root_cause(str(cause or error))}", hint=RETRY_HINT) from error
