"""Warm-up: start the workers before the first batch."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from clew.collector.log import IncomingEvent, LogWriter
from clew.events.stream import Stream
from clew.pipeline import source
from clew.pipeline.lake_tables import write_events
from clew.pipeline.worker import EventWorker

_MAX_WORKERS = 8
_EVENT = b'{"eventTime": "2026-01-01T00:00:00Z", "run": {"runId": "%d", "facets": {"a": {}}}}'


def warm_up(spark: SparkSession) -> None:
    """Ingest one event per core into a temporary folder. Only in local mode."""
    if not (spark.sparkContext.master or "").startswith("local"):
        return
    with TemporaryDirectory(prefix="clew-") as folder:
        log, lake = Path(folder, "log"), Path(folder, "lake")
        # One event per segment, and one task per segment.
        with LogWriter(log, segment_bytes=1) as writer:
            for number in range(min(spark.sparkContext.defaultParallelism, _MAX_WORKERS)):
                writer.append([IncomingEvent(Stream.OPENLINEAGE, "clew", _EVENT % number)])
        write_events(spark.read.format(source.FORMAT_NAME).load(str(log)), EventWorker(str(lake)))
