"""Prometheus counter and histogram without locks, for one thread: locking would cost as much as storing an event."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector


class UnlockedCounter(Collector):
    """Counter by labels."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str]) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._counts: dict[tuple[str | int, ...], int] = {}

    def inc(self, labels: tuple[str | int, ...]) -> None:
        """Increment the counter."""
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the metric family."""
        family = CounterMetricFamily(self._name, self._documentation, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric([str(label) for label in labels], count)
        yield family


class UnlockedHistogram(Collector):
    """Histogram with fixed bounds."""

    def __init__(self, name: str, documentation: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._documentation = documentation
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Add a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Yield the metric family."""
        names = [*map(str, self._bounds), "+Inf"]
        family = HistogramMetricFamily(self._name, self._documentation)
        family.add_metric([], list(zip(names, accumulate(self._counts), strict=True)), self._sum)
        yield family
