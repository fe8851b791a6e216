"""Maintenance of a lake: compaction, refresh, vacuum and retention, once or in the background."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Event, Thread
from typing import Final, Self

import pyarrow as pa
from msgspec import Struct, field

from clew.data_dir import DataDir, LakeLocation
from clew.errors import ClewError, UsageError
from clew.eventlog.retention import drop_segments, next_position, overwrite_lines
from clew.eventlog.segments import list_paths, record_event_id, segment_base
from clew.index.backends import open_backend
from clew.index.backends.sqlite import MissingIndexError
from clew.index.queries.reader import IndexReader
from clew.lake.compaction import (
    MIN_SAFE_RETENTION_HOURS,
    TARGET_BYTES,
    ExpiredSelection,
    compact_table,
    compact_tables,
    delete_rows_before,
    find_expired_events,
    replace_events,
    vacuum_tables,
)
from clew.lake.lake import Lake
from clew.lake.manifest import check_integrity
from clew.lake.refresh_state import is_refreshed, reset_refresh_state
from clew.lake.schemas import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES, EVENT_TABLES, STATE_TABLE_NAMES, Table
from clew.pipeline.checkpoint import Checkpoint, forget_log_tails, open_log
from clew.pipeline.locks import BACKFILL_LOCK, PIPELINE_LOCK, acquire_lock, read_lock_holder
from clew.progress import ProgressCallback, no_progress

_HOUR = 3600.0
ALL_EVENTS: Final = ExpiredSelection()
# A refresh may rebuild all tables; this limits its share of the wall time.
_MAX_REFRESH_DUTY_CYCLE = 0.05
# Time for a cancelled refresh to end. Its thread does not keep the process alive.
_STOP_SECONDS = 2.0
_CANCEL_INTERVAL_SECONDS = 0.1


class MaintenanceConfig(Struct, frozen=True):
    """Intervals and thresholds of background maintenance."""

    compaction_trigger_files: int = 64
    poll_interval_seconds: float = 10.0
    refresh_interval_seconds: float = 300.0
    vacuum_interval_seconds: float = _HOUR
    error_backoff_seconds: float = 300.0
    retention_hours: int = 7 * 24
    # Each refresh replaces files of the derived tables.
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

    Two, because a refresh may run for minutes, during which files must be compacted. At the end, `cancel` is called for
    the refresh; an interrupted one is repeated by the next.
    """

    def __init__(
        self,
        root: LakeLocation,
        refresh: Callable[[Lake], bool],
        on_progress: ProgressCallback,
        config: MaintenanceConfig,
        stats: MaintenanceStats | None = None,
        expire_log: Callable[[timedelta], object] = lambda _: None,
        cancel: Callable[[], object] = lambda: None,
    ) -> None:
        self.stats = stats or MaintenanceStats()
        self._files, self._derived = Lake(root), Lake(root)
        self._refresh = refresh
        self._expire_log = expire_log
        self._cancel = cancel
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

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        deadline = time.monotonic() + _STOP_SECONDS
        for thread in self._threads:
            # A refresh starts Spark jobs one after the other: each is cancelled.
            while thread.is_alive() and time.monotonic() < deadline:
                self._cancel()
                thread.join(_CANCEL_INTERVAL_SECONDS)

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
                if self._stop.is_set():
                    return
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
        vacuum_tables(self._files, self._config.derived_retention_hours, (*DERIVED_TABLE_NAMES, *STATE_TABLE_NAMES))
        if self._config.log_retention is not None:
            self._expire_log(self._config.log_retention)
        self.stats.vacuums += 1
        self._next_vacuum = time.monotonic() + self._config.vacuum_interval_seconds


class RetentionResult(Struct):
    """Deleted rows by table; number and bytes of deleted log segments; events deleted within segments."""

    deleted_rows: dict[str, int] = field(default_factory=dict)
    log_events: int = 0
    segments: int = 0
    segment_bytes: int = 0


def expire_log_segments(home: DataDir, age: timedelta) -> RetentionResult:
    """Delete log segments older than `age` that are in the lake and the index. Safe while a pipeline runs."""
    count, size = drop_segments(home.log, datetime.now(UTC) - age, _indexed_offset(home))
    return RetentionResult(segments=count, segment_bytes=size)


def _indexed_offset(home: DataDir) -> int:
    """Return the log offset up to which events are in the lake and the index; the index may lag by a batch."""
    position = Checkpoint(home.checkpoint).committed_offset
    try:
        with IndexReader(home.index) as index:
            seq = index.meta("indexed_seq")
    except MissingIndexError:
        # It will be rebuilt from the lake.
        return position
    return 0 if seq is None else min(position, next_position(home.log, int(seq)))


def expire_events(home: DataDir, age: timedelta, selection: ExpiredSelection = ALL_EVENTS) -> RetentionResult:
    """Delete selected events older than `age`. The index is deleted first: the next pipeline rebuilds it."""
    cutoff = datetime.now(UTC) - age
    # A running pipeline or backfill would write rows of deleted events.
    with acquire_lock(home.lake / PIPELINE_LOCK) as check_lock, acquire_lock(home.lake / BACKFILL_LOCK, "backfill"):
        lake, result = Lake(home.lake, check_lock), RetentionResult()
        events = find_expired_events(lake, cutoff, selection)
        # First, so that an interrupted call can be repeated: positions are found in the lake.
        if selection:
            result.log_events = _overwrite_events(home, events)
        if len(events):
            open_backend(home.index).remove()
            reset_refresh_state(lake)
            result.deleted_rows = (
                replace_events(lake, events["seq"].combine_chunks(), [])
                if selection
                else delete_rows_before(lake, cutoff, events["seq"].combine_chunks())
            )
        if not selection:
            committed = Checkpoint(home.checkpoint).committed_offset
            result.segments, result.segment_bytes = drop_segments(home.log, cutoff, committed)
    return result


def _overwrite_events(home: DataDir, events: pa.Table) -> int:
    """Overwrite the lines of events in the log; return their number."""
    if not len(events):
        return 0
    identities = dict(zip(events["seq"].to_pylist(), events["event_id"].to_pylist(), strict=True))
    # Events of a topic have positions, too, but are not in the log.
    with open_log(home):
        forget_log_tails(home.checkpoint)

        def erase(base: int, offset: int, line: bytes) -> bytes:
            identity = identities.get(base + offset)
            return b" " * len(line) if identity is not None and record_event_id(line) == identity else line

        return sum(overwrite_lines(path, partial(erase, segment_base(path))) for path in list_paths(home.log))


class MaintenanceResult(Struct):
    """Files of each event table before and after; number and bytes of deleted files by table; expired data."""

    compacted: dict[str, tuple[int, int]]
    vacuumed: dict[str, tuple[int, int]]
    is_refreshed: bool
    # The refresh is left to the running pipeline.
    is_refresh_deferred: bool
    expired: RetentionResult


def run_maintenance(  # noqa: PLR0913
    home: DataDir,
    retention_hours: int,
    *,
    drop_older_than: timedelta | None = None,
    selection: ExpiredSelection = ALL_EVENTS,
    log_retention: timedelta | None = None,
    is_forced: bool = False,
    on_progress: ProgressCallback = no_progress,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> MaintenanceResult:
    """Run maintenance. A short retention needs `is_forced`; with `drop_older_than`, no pipeline may be running.

    `selection` limits `drop_older_than`.
    """
    _check_retention(retention_hours, is_forced=is_forced)
    check_integrity(home.lake)
    lock = home.lake / PIPELINE_LOCK
    is_short = retention_hours < MIN_SAFE_RETENTION_HOURS
    if is_short:
        _require_idle(home)
    expired = RetentionResult()
    if drop_older_than is not None:
        on_progress("Deleting expired events")
        expired = expire_events(home, drop_older_than, selection)
    if log_retention is not None:
        on_progress("Deleting expired log segments")
        log_result = expire_log_segments(home, log_retention)
        expired.segments += log_result.segments
        expired.segment_bytes += log_result.segment_bytes
    lake = Lake(home.lake)
    on_progress("Compacting small files")
    compacted = compact_tables(lake)
    is_stale = not is_refreshed(lake)
    is_running = read_lock_holder(lock) is not None
    if is_stale and not is_running:
        _refresh(home, on_progress, master, conf)
    on_progress("Vacuuming")
    with acquire_lock(lock) if is_short else nullcontext():
        vacuumed = vacuum_tables(lake, retention_hours)
    return MaintenanceResult(compacted, vacuumed, is_stale and not is_running, is_stale and is_running, expired)


def _check_retention(hours: int, *, is_forced: bool) -> None:
    if hours < 0:
        raise UsageError(f"A retention of {hours} hours is not valid.", hint="Pass 0 or more.")
    if hours < MIN_SAFE_RETENTION_HOURS and not is_forced:
        message = f"A retention of {hours} hours may delete files that a running query reads."
        hint = f"Keep at least {MIN_SAFE_RETENTION_HOURS} hours, or add --force if nothing reads the lake."
        raise UsageError(message, hint=hint)


def _require_idle(home: DataDir) -> None:
    holder = read_lock_holder(home.lake / PIPELINE_LOCK)
    if holder is not None:
        message = f"A pipeline is running on {home.lake} ({holder}): files that it is writing would be deleted."
        raise ClewError(message, hint=f"Stop it first, or keep at least {MIN_SAFE_RETENTION_HOURS} hours.")


def _refresh(home: DataDir, on_progress: ProgressCallback, master: str, conf: Mapping[str, str] | None) -> None:
    # Imported lazily: a lake that is up to date needs no Spark.
    from clew.pipeline.pipeline import open_pipeline

    with open_pipeline(home, on_progress=on_progress, master=master, conf=conf) as pipeline:
        pipeline.refresh()
