"""The collector in numbers, for Prometheus. Labels are few and known: no names that senders choose."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from clew.collector.groups import Group
from clew.collector.payloads import Taken
from clew.collector.tallies import Spread, Tally
from clew.events.stream import Stream

_ANSWER_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_GROUP_EVENTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Counts what came, what became of it, and how long the disk took."""

    def __init__(self, folder: Path) -> None:
        self.registry = registry = CollectorRegistry()
        self._answers = Tally("clew_collector_answers", "Requests answered.", ("endpoint", "status"))
        self._events = Tally("clew_collector_events", "Events received.", ("stream", "outcome"))
        self._answer_seconds = Spread("clew_collector_answer_seconds", "How long an answer took.", _ANSWER_SECONDS)
        for own in (self._answers, self._events, self._answer_seconds):
            registry.register(own)
        self._bytes = Counter("clew_collector_event_bytes", "Bytes of events appended.", registry=registry)
        self._sync_seconds = Histogram(
            "clew_collector_sync_seconds", "How long one sync took.", buckets=_ANSWER_SECONDS, registry=registry
        )
        self._group_events = Histogram(
            "clew_collector_group_events", "Events in one sync.", buckets=_GROUP_EVENTS, registry=registry
        )
        self._faults = Counter("clew_collector_sync_faults", "Groups that could not be stored.", registry=registry)
        self.waiting = Gauge("clew_collector_waiting_bytes", "Bytes that wait to be stored.", registry=registry)
        free = Gauge("clew_collector_free_bytes", "Bytes free on the disk of the log.", registry=registry)
        free.set_function(lambda: shutil.disk_usage(folder).free)

    def answered(self, endpoint: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._answers.add((endpoint, status))
        self._answer_seconds.add(seconds)

    def took(self, stream: Stream, events: Sequence[Taken]) -> None:
        """Count what became of the events of a request."""
        for event in events:
            self._events.add((stream, event.outcome))

    def wrote(self, group: Group) -> None:
        """Count a group of events, written at once."""
        if not group.is_stored:
            self._faults.inc()
            return
        self._bytes.inc(group.bytes)
        self._sync_seconds.observe(group.seconds)
        self._group_events.observe(group.events)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        return generate_latest(self.registry)
