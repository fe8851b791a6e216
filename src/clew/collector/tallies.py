"""Counting on one thread, for Prometheus: the locks of its own counters would cost as much as taking an event."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector


class Tally(Collector):
    """How often something happened, by its labels."""

    def __init__(self, name: str, meaning: str, labels: Sequence[str]) -> None:
        self._name = name
        self._meaning = meaning
        self._labels = labels
        self._counts: dict[tuple[str | int, ...], int] = {}

    def add(self, labels: tuple[str | int, ...]) -> None:
        """It happened once more."""
        self._counts[labels] = self._counts.get(labels, 0) + 1

    def collect(self) -> Iterator[CounterMetricFamily]:
        """The counts."""
        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for labels, count in self._counts.items():
            family.add_metric([str(label) for label in labels], count)
        yield family


class Spread(Collector):
    """How many values lie below each of some bounds."""

    def __init__(self, name: str, meaning: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._meaning = meaning
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The counts."""
        names = [*map(str, self._bounds), "+Inf"]
        family = HistogramMetricFamily(self._name, self._meaning)
        family.add_metric([], list(zip(names, accumulate(self._counts), strict=True)), self._sum)
        yield family
