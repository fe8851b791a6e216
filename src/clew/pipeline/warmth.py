"""A first batch that is no slower than the others: workers are started and have loaded what they need before it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from clew.collector.log import LogWriter, Received
from clew.events.stream import Stream
from clew.pipeline import source
from clew.pipeline.lake_tables import write_events
from clew.pipeline.worker import EventWorker

_MOST_WORKERS = 8
_EVENT = b'{"eventTime": "2026-01-01T00:00:00Z", "run": {"runId": "%d", "facets": {"a": {}}}}'


def warm_up(spark: SparkSession) -> None:
    """Take one event per core in, into a folder that is thrown away. Only where workers are on this machine."""
    if not (spark.sparkContext.master or "").startswith("local"):
        return
    with TemporaryDirectory(prefix="clew-") as folder:
        log, lake = Path(folder, "log"), Path(folder, "lake")
        # Each event is a segment, and each segment a task of its own.
        with LogWriter(log, segment_bytes=1) as writer:
            for number in range(min(spark.sparkContext.defaultParallelism, _MOST_WORKERS)):
                writer.append([Received(Stream.OPENLINEAGE, "clew", _EVENT % number)])
        write_events(spark.read.format(source.NAME).load(str(log)), EventWorker(str(lake)))
