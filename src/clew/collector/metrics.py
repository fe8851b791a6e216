"""Prometheus metrics of the collector."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from clew.collector.group_commit import CommitStats
from clew.collector.ingest import IngestResult
from clew.events.streams import Stream
from clew.server.metrics import SECONDS_BUCKETS, UnlockedCounter, UnlockedHistogram

_EVENTS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class CollectorMetrics:
    """Metrics of requests, events and group commits."""

    def __init__(self, folder: Path) -> None:
        self.registry = registry = CollectorRegistry()
        self._responses = UnlockedCounter("clew_collector_responses", "HTTP responses.", ("endpoint", "status"))
        self._events = UnlockedCounter("clew_collector_events", "Events received.", ("stream", "outcome"))
        self._response_seconds = UnlockedHistogram("clew_collector_response_seconds", "Response time.", SECONDS_BUCKETS)
        for metric in (self._responses, self._events, self._response_seconds):
            registry.register(metric)
        self._bytes = Counter("clew_collector_event_bytes", "Bytes of events appended.", registry=registry)
        self._sync_seconds = Histogram(
            "clew_collector_sync_seconds", "Duration of a group commit.", buckets=SECONDS_BUCKETS, registry=registry
        )
        self._commit_events = Histogram(
            "clew_collector_commit_events", "Events per group commit.", buckets=_EVENTS_BUCKETS, registry=registry
        )
        self._errors = Counter("clew_collector_sync_errors", "Failed group commits.", registry=registry)
        self.pending_bytes = Gauge("clew_collector_pending_bytes", "Bytes waiting to be stored.", registry=registry)
        free = Gauge("clew_collector_free_bytes", "Free bytes on the disk of the log.", registry=registry)
        free.set_function(lambda: shutil.disk_usage(folder).free)

    def observe_response(self, endpoint: str, status: int, seconds: float) -> None:
        """Record a response."""
        self._responses.inc((endpoint, status))
        self._response_seconds.observe(seconds)

    def count_events(self, stream: Stream, results: Sequence[IngestResult]) -> None:
        """Count the events of a request by outcome."""
        for result in results:
            self._events.inc((stream, result.outcome))

    def observe_commit(self, stats: CommitStats) -> None:
        """Record a group commit."""
        if not stats.is_stored:
            self._errors.inc()
            return
        self._bytes.inc(stats.bytes)
        self._sync_seconds.observe(stats.seconds)
        self._commit_events.observe(stats.events)

    def watch_pipeline(self, is_running: Callable[[], bool], restarts: Callable[[], int]) -> None:
        """Add the metrics of the pipeline of `clew up`."""
        Gauge("clew_pipeline_up", "1 while the pipeline process runs.", registry=self.registry).set_function(is_running)
        gauge = Gauge("clew_pipeline_restarts", "Restarts of the pipeline process.", registry=self.registry)
        gauge.set_function(restarts)

    def render(self) -> bytes:
        """Return all metrics in Prometheus text format."""
        return generate_latest(self.registry)
