"""Prometheus metrics of the index that the API reads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from clew.data_dir import IndexLocation
from clew.errors import ClewError
from clew.index.queries.connection import IndexVersion
from clew.index.queries.reader import IndexReader


class IndexMetrics(Collector):
    """State of the index, read on scrape."""

    def __init__(self, location: IndexLocation) -> None:
        self._location = location

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metric families; without an index, only `clew_index_up`."""
        version = self._read_version()
        yield GaugeMetricFamily("clew_index_up", "1 if the index can be read.", value=float(version is not None))
        if version is None or not version.indexed_at:
            return
        age = (datetime.now(UTC) - datetime.fromisoformat(version.indexed_at)).total_seconds()
        yield GaugeMetricFamily("clew_index_age_seconds", "Seconds since the last indexed batch.", value=max(0.0, age))
        yield GaugeMetricFamily("clew_index_position", "Last indexed log position.", value=version.indexed_seq)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield nothing: the index is not read before the first scrape."""
        return iter(())

    def check_ready(self) -> None:
        """Raise ClewError if there is an index that cannot be read. Before the first event, there is none."""
        if isinstance(self._location, Path) and not self._location.exists():
            return
        try:
            with IndexReader(self._location) as index:
                index.version()
        except sqlite3.Error as error:
            raise ClewError(f"The index cannot be read: {error}.") from error

    def _read_version(self) -> IndexVersion | None:
        try:
            with IndexReader(self._location) as index:
                return index.version()
        except (ClewError, sqlite3.Error):
            return None
