"""Maintenance of the lake (`clew pipeline compact`): retention, compaction, refresh and vacuum."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import timedelta

from msgspec import Struct

from clew.errors import ClewError, UsageError
from clew.home import DataDir
from clew.lake.delta import Lake
from clew.lake.soundness import check_integrity
from clew.lake.upkeep import MIN_SAFE_RETENTION_HOURS, compact_tables, vacuum_tables
from clew.pipeline.lock import acquire_lock, read_lock_holder
from clew.pipeline.retention import RetentionResult, expire_events, expire_log_segments
from clew.pipeline.saying import ProgressCallback, no_progress


class MaintenanceResult(Struct):
    """Files of each event table before and after; number and bytes of deleted files by table; expired data."""

    compacted: dict[str, tuple[int, int]]
    vacuumed: dict[str, tuple[int, int]]
    is_refreshed: bool
    # The refresh is left to the running pipeline, which does it when it stops.
    is_refresh_deferred: bool
    expired: RetentionResult


def run_maintenance(
    home: DataDir,
    retention_hours: int,
    *,
    drop_older_than: timedelta | None = None,
    log_retention: timedelta | None = None,
    is_forced: bool = False,
    on_progress: ProgressCallback = no_progress,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> MaintenanceResult:
    """Run maintenance. A short retention needs `is_forced`; with `drop_older_than`, no pipeline may be running."""
    _check_retention(retention_hours, is_forced=is_forced)
    check_integrity(home.lake)
    lock = home.lake / ".lock"
    is_short = retention_hours < MIN_SAFE_RETENTION_HOURS
    if is_short:
        _require_idle(home)
    expired = _expire_events(home, drop_older_than, on_progress)
    if log_retention is not None:
        on_progress("Deleting expired log segments")
        log_result = expire_log_segments(home, log_retention)
        expired = RetentionResult(
            expired.deleted_rows,
            expired.segments + log_result.segments,
            expired.segment_bytes + log_result.segment_bytes,
        )
    lake = Lake(home.lake)
    on_progress("Compacting small files")
    compacted = compact_tables(lake)
    is_stale = not lake.is_up_to_date(lake.source_fingerprint())
    is_running = read_lock_holder(lock) is not None
    if is_stale and not is_running:
        _refresh(home, on_progress, master, conf)
    on_progress("Vacuuming")
    with acquire_lock(lock) if is_short else nullcontext():
        vacuumed = vacuum_tables(lake, retention_hours)
    return MaintenanceResult(compacted, vacuumed, is_stale and not is_running, is_stale and is_running, expired)


def _expire_events(home: DataDir, age: timedelta | None, on_progress: ProgressCallback) -> RetentionResult:
    if age is None:
        return RetentionResult()
    on_progress("Deleting expired events")
    return expire_events(home, age)


def _check_retention(hours: int, *, is_forced: bool) -> None:
    if hours < 0:
        raise UsageError(f"A retention of {hours} hours is not valid.", hint="Pass 0 or more.")
    if hours < MIN_SAFE_RETENTION_HOURS and not is_forced:
        message = f"A retention of {hours} hours may delete files that a running query reads."
        hint = f"Keep at least {MIN_SAFE_RETENTION_HOURS} hours, or add --force if nothing reads the lake."
        raise UsageError(message, hint=hint)


def _require_idle(home: DataDir) -> None:
    holder = read_lock_holder(home.lake / ".lock")
    if holder is not None:
        message = f"A pipeline is running on {home.lake} ({holder}): files that it is writing would be deleted."
        raise ClewError(message, hint=f"Stop it first, or keep at least {MIN_SAFE_RETENTION_HOURS} hours.")


def _refresh(home: DataDir, on_progress: ProgressCallback, master: str, conf: Mapping[str, str] | None) -> None:
    # Imported lazily: a lake that is up to date needs no Spark.
    from clew.pipeline.work import open_pipeline

    with open_pipeline(home, on_progress=on_progress, master=master, conf=conf) as pipeline:
        pipeline.refresh()
