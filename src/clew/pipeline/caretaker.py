"""Background maintenance of a stream: compaction, refresh of derived tables, vacuum."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread
from types import TracebackType
from typing import Self

from msgspec import Struct

from clew.home import LakeLocation
from clew.lake.delta import Lake
from clew.lake.tables import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES, EVENT_TABLES, Table
from clew.lake.upkeep import TARGET_BYTES, compact_table, vacuum_tables
from clew.pipeline.saying import ProgressCallback

_HOUR = 3600.0
# A refresh reads the whole lake; this limits its share of the wall time.
_MAX_REFRESH_DUTY_CYCLE = 0.05


class MaintenanceConfig(Struct, frozen=True):
    """Intervals and thresholds of background maintenance."""

    compaction_trigger_files: int = 64
    poll_interval_seconds: float = 10.0
    refresh_interval_seconds: float = 300.0
    vacuum_interval_seconds: float = _HOUR
    error_backoff_seconds: float = 300.0
    retention_hours: int = 7 * 24
    # Each refresh writes a full copy of the derived tables.
    derived_retention_hours: int = 2
    target_bytes: int = TARGET_BYTES
    # Ingested log segments older than this are deleted; None deletes nothing.
    log_retention: timedelta | None = None


class MaintenanceStats(Struct):
    """Counters of background maintenance."""

    compactions: int = 0
    refreshes: int = 0
    vacuums: int = 0
    errors: int = 0


class BackgroundMaintenance:
    """Two maintenance threads, used as a context manager. Errors are reported and never stop the stream.

    Two, because a refresh may run for minutes, during which files must be compacted.
    """

    def __init__(
        self,
        root: LakeLocation,
        refresh: Callable[[Lake], bool],
        on_progress: ProgressCallback,
        config: MaintenanceConfig,
        stats: MaintenanceStats | None = None,
        expire_log: Callable[[timedelta], object] = lambda _: None,
    ) -> None:
        self.stats = stats or MaintenanceStats()
        self._files, self._derived = Lake(root), Lake(root)
        self._refresh = refresh
        self._expire_log = expire_log
        self._on_progress = on_progress
        self._config = config
        self._stop = Event()
        self._threads = [
            Thread(target=self._run, args=(task,), name=f"clew-{task.__name__}", daemon=True)
            for task in (self.compact_and_vacuum, self.refresh_if_due)
        ]
        self._files_after_compaction: dict[str, int] = {}
        self._next_refresh = time.monotonic() + config.refresh_interval_seconds
        self._next_vacuum = time.monotonic() + config.vacuum_interval_seconds

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def compact_and_vacuum(self) -> None:
        """Compact tables with many new files, and vacuum if it is due."""
        for table in EVENT_TABLES:
            if not self._stop.is_set():
                self._compact(table)
        if time.monotonic() >= self._next_vacuum and not self._stop.is_set():
            self._vacuum()

    def refresh_if_due(self) -> None:
        """Refresh derived tables if it is due."""
        started = time.monotonic()
        if started >= self._next_refresh:
            self.stats.refreshes += self._refresh(self._derived)
            ended = time.monotonic()
            self._next_refresh = ended + max(
                self._config.refresh_interval_seconds, (ended - started) / _MAX_REFRESH_DUTY_CYCLE
            )

    def _run(self, task: Callable[[], None]) -> None:
        pause = self._config.poll_interval_seconds
        while not self._stop.wait(pause):
            try:
                task()
                pause = self._config.poll_interval_seconds
            except Exception as error:  # noqa: BLE001  # errors of maintenance must not stop the stream
                self.stats.errors += 1
                pause = max(self._config.poll_interval_seconds, self._config.error_backoff_seconds)
                self._on_progress(f"Maintenance failed; ingestion continues: {error}")

    def _compact(self, table: Table) -> None:
        new = len(self._files.files(table.name)) - self._files_after_compaction.get(table.name, 0)
        if new >= self._config.compaction_trigger_files:
            _, after = compact_table(self._files, table, self._config.target_bytes, is_size_tiered=True)
            self._files_after_compaction[table.name] = after
            self.stats.compactions += 1

    def _vacuum(self) -> None:
        vacuum_tables(self._files, self._config.retention_hours, EVENT_TABLE_NAMES)
        vacuum_tables(self._files, self._config.derived_retention_hours, DERIVED_TABLE_NAMES)
        if self._config.log_retention is not None:
            self._expire_log(self._config.log_retention)
        self.stats.vacuums += 1
        self._next_vacuum = time.monotonic() + self._config.vacuum_interval_seconds
