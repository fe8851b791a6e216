"""Prometheus metrics of a watcher."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from clew.errors import ClewError
from clew.query.notifications import NOTIFICATION_KINDS
from clew.watch.watcher import Watcher


class WatchMetrics(Collector):
    """Notifications delivered and pending, read from a watcher on scrape."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families."""
        delivered = CounterMetricFamily("clew_notifications", "Notifications delivered.", labels=["kind"])
        for kind in NOTIFICATION_KINDS:
            delivered.add_metric([kind], self._watcher.delivered[kind])
        yield delivered
        attempts = self._watcher.failed_attempts
        yield CounterMetricFamily("clew_webhook_errors", "Failed attempts to post a notification.", value=attempts)
        pending, rejected = self._watcher.pending, self._watcher.rejected
        yield GaugeMetricFamily("clew_notifications_pending", "Notifications not delivered yet.", value=pending)
        yield GaugeMetricFamily("clew_notifications_rejected", "Notifications webhooks rejected.", value=rejected)

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: the watcher may not be open yet."""
        return iter(())

    def check_ready(self) -> None:
        """Raise ClewError if the index cannot be read."""
        error = self._watcher.last_error
        if error is not None:
            raise ClewError(f"The index cannot be read: {error}")
