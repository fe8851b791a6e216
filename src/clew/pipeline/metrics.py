"""Prometheus metrics of the pipeline, served over HTTP or written to a file for the node exporter."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, write_to_textfile
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position
from clew.pipeline.checkpoint import BatchRecord, Checkpoint, measure_source_lag
from clew.pipeline.maintenance import MaintenanceStats
from clew.server.monitoring import ReadinessCheck, always_ready, serve_monitoring

_DURATION_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0)

LAG_BYTES: Final = "clew_log_lag_bytes"
LAG_EVENTS: Final = "clew_log_lag_events"
_LAG_BYTES_HELP = "Bytes of the log that are not ingested."
_LAG_EVENTS_HELP = "Events of the log that are not ingested."


class PipelineMetrics:
    """Batch listener that counts events; the lag is computed on scrape."""

    def __init__(self, home: DataDir) -> None:
        self.registry = CollectorRegistry()
        # Updated by the background maintenance.
        self.maintenance_stats = MaintenanceStats()
        self._home = home
        checkpoint = Checkpoint(home.checkpoint)
        self._end_offset = checkpoint.committed_offset
        self._source = checkpoint.batch_offset(checkpoint.last_committed_batch)
        self._last_batch_at = time.monotonic()
        self._create_counters()
        self._create_gauges()

    def __call__(self, batch: BatchRecord) -> None:
        """Count a batch."""
        self._end_offset, self._last_batch_at = batch.end_offset, time.monotonic()
        self._source = batch.source
        self._events.inc(batch.events)
        self._rejected.inc(batch.rejected)
        self._corrupt.inc(batch.corrupt_records)
        self._duplicates.inc(batch.duplicates)
        self._durations.observe(batch.seconds)
        for table, rows in batch.rows.items():
            self._rows.labels(table).inc(rows)

    def serve(self, host: str, port: int, check_ready: ReadinessCheck = always_ready) -> AbstractContextManager[int]:
        """Serve `/metrics`, `/healthz` and `/readyz`; yield the port, which is a free one for 0."""
        return serve_monitoring(self.registry, host, port, check_ready)

    def write(self, path: Path) -> None:
        """Write the metrics to a file atomically."""
        try:
            write_to_textfile(str(path), self.registry)
        except OSError as error:
            message = f"Metrics cannot be written to {path}: {error.strerror}."
            raise ClewError(message, hint="The events were ingested. Pass another file with --metrics-file.") from error

    def _create_counters(self) -> None:
        registry = self.registry
        self._events = Counter("clew_events", "Events ingested.", registry=registry)
        self._rejected = Counter("clew_rejected_events", "Events rejected.", registry=registry)
        self._corrupt = Counter("clew_corrupt_records", "Damaged records of the log.", registry=registry)
        self._duplicates = Counter("clew_duplicate_events", "Duplicate events skipped.", registry=registry)
        self._rows = Counter("clew_rows", "Rows added.", ["table"], registry=registry)
        self._durations = Histogram(
            "clew_batch_duration_seconds", "Duration of a batch.", buckets=_DURATION_BUCKETS, registry=registry
        )

    def _create_gauges(self) -> None:
        for name, text, value in (
            (LAG_BYTES, _LAG_BYTES_HELP, self._lag_bytes),
            (LAG_EVENTS, _LAG_EVENTS_HELP, self._lag_events),
            ("clew_seconds_since_last_batch", "Seconds since the last batch.", self._seconds_since_last_batch),
        ):
            Gauge(name, text, registry=self.registry).set_function(value)
        runs = Gauge("clew_maintenance_runs", "Maintenance runs.", ["task"], registry=self.registry)
        for task, field in (("compaction", "compactions"), ("refresh", "refreshes"), ("vacuum", "vacuums")):
            runs.labels(task).set_function(partial(getattr, self.maintenance_stats, field))
        errors = Gauge("clew_maintenance_errors", "Errors of maintenance runs.", registry=self.registry)
        errors.set_function(lambda: self.maintenance_stats.errors)

    def _lag_bytes(self) -> float:
        if self._source is None or not self._source.topic:
            return max(0, end_position(self._home.log) - self._end_offset)
        return measure_source_lag(self._home, self._end_offset, self._source).bytes

    def _lag_events(self) -> float:
        return measure_source_lag(self._home, self._end_offset, self._source).events

    def _seconds_since_last_batch(self) -> float:
        return time.monotonic() - self._last_batch_at


class LagMetrics(Collector):
    """Lag of the pipeline, for a server that runs beside it; computed on scrape."""

    def __init__(self, home: DataDir) -> None:
        self._home = home

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metric families."""
        checkpoint = Checkpoint(self._home.checkpoint)
        source = checkpoint.batch_offset(checkpoint.last_committed_batch)
        lag = measure_source_lag(self._home, checkpoint.committed_offset, source)
        yield GaugeMetricFamily(LAG_BYTES, _LAG_BYTES_HELP, value=lag.bytes)
        yield GaugeMetricFamily(LAG_EVENTS, _LAG_EVENTS_HELP, value=lag.events)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield nothing: the log is not read before the first scrape."""
        return iter(())
