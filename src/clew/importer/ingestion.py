"""Ingests imported events: at once as raw events, then their facets, newest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import Struct
from pyspark.sql import SparkSession

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position
from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.locks import PIPELINE_LOCK, LockedError, read_lock_holder
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.reprocess import BackfillProgress, run_backfill
from clew.progress import ProgressCallback

_POLL_SECONDS = 0.5

# Done, total, and number of events.
StepCallback = Callable[[int, int, int], None]


class IngestionResult(Struct):
    """Events ingested by this process; None if a running pipeline does it, whose counts are in its status."""

    events: int | None = None
    rejected: int | None = None
    duplicates: int | None = None
    backfilled: int = 0
    is_complete: bool = False


class SparkOptions(Struct, frozen=True):
    """Options of the Spark session, or a running session."""

    master: str = "local[2]"
    conf: Mapping[str, str] | None = None
    session: SparkSession | None = None


def ingest_imported_events(
    home: DataDir, spark: SparkOptions, on_status: ProgressCallback, on_step: StepCallback, *, has_backfill: bool
) -> IngestionResult:
    """Ingest what is in the log, or wait for a running pipeline that does; then backfill facets."""
    result = IngestionResult()
    try:
        with open_pipeline(
            home, on_progress=on_status, spark=spark.session, master=spark.master, conf=spark.conf
        ) as pipeline:
            on_status("Ingesting events")
            stats = pipeline.ingest_available()
            result.events, result.rejected, result.duplicates = stats.events, stats.rejected, stats.duplicates
            if not has_backfill:
                pipeline.refresh()
    except LockedError:
        _wait_for_pipeline(home, on_status)
    if has_backfill:
        result.backfilled = _backfill(home, spark, on_status, on_step).events
        result.is_complete = True
    return result


def _wait_for_pipeline(home: DataDir, on_status: ProgressCallback) -> None:
    """Wait until the running pipeline has ingested the log up to its current end."""
    on_status("Waiting for the running pipeline")
    end, checkpoint = end_position(home.log), Checkpoint(home.checkpoint)
    while checkpoint.committed_offset < end:
        if read_lock_holder(home.lake / PIPELINE_LOCK) is None:
            message = "The pipeline stopped before it had ingested the imported events. They are in the log."
            raise ClewError(message, hint="Run `clew pipeline run`, then `clew pipeline backfill`.")
        time.sleep(_POLL_SECONDS)


def _backfill(
    home: DataDir, spark: SparkOptions, on_status: ProgressCallback, on_step: StepCallback
) -> BackfillProgress:
    def step(state: BackfillProgress) -> None:
        on_step(state.events, state.events + state.remaining, state.events)

    return run_backfill(
        home, on_status=on_status, on_progress=step, spark=spark.session, master=spark.master, conf=spark.conf
    )
