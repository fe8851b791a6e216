"""Upkeep of the lake: small files merged, derived tables brought up to date, files that nobody needs removed."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from datetime import timedelta

from msgspec import Struct

from clew.errors import ClewError, UsageError
from clew.home import Home
from clew.lake.delta import Lake
from clew.lake.soundness import require_sound_lake
from clew.lake.upkeep import SAFE_HOURS, merge_files, remove_files
from clew.pipeline.lock import held, holder_of
from clew.pipeline.retention import Dropped, drop_log, drop_older
from clew.pipeline.saying import Say, silently


class Upkept(Struct):
    """Files of each event table before and after; number and bytes of files removed, by table; what was too old."""

    merged: dict[str, tuple[int, int]]
    removed: dict[str, tuple[int, int]]
    is_refreshed: bool
    # Derived tables are then left to the pipeline that is at work: it refreshes them when it stops.
    is_left_to_pipeline: bool
    dropped: Dropped


def upkeep(
    home: Home,
    retention_hours: int,
    *,
    drop_older_than: timedelta | None = None,
    keep_log: timedelta | None = None,
    is_forced: bool = False,
    say: Say = silently,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> Upkept:
    """Tidy the lake. A short retention needs `is_forced`; with `drop_older_than`, too, no pipeline may be at work."""
    _check_retention(retention_hours, is_forced=is_forced)
    require_sound_lake(home.lake)
    lock = home.lake / ".lock"
    is_short = retention_hours < SAFE_HOURS
    if is_short:
        _require_rest(home)
    dropped = _drop_older(home, drop_older_than, say)
    if keep_log is not None:
        say("Removing segments of the log that were taken in")
        freed = drop_log(home, keep_log)
        dropped = Dropped(dropped.rows, dropped.segments + freed.segments, dropped.segment_bytes + freed.segment_bytes)
    lake = Lake(home.lake)
    say("Merging small files")
    merged = merge_files(lake)
    is_stale = not lake.is_derived_from(lake.state_of_events())
    is_at_work = holder_of(lock) is not None
    if is_stale and not is_at_work:
        _refresh(home, say, master, conf)
    say("Removing files that no version needs")
    with held(lock) if is_short else nullcontext():
        removed = remove_files(lake, retention_hours)
    return Upkept(merged, removed, is_stale and not is_at_work, is_stale and is_at_work, dropped)


def _drop_older(home: Home, age: timedelta | None, say: Say) -> Dropped:
    if age is None:
        return Dropped()
    say("Dropping old events")
    return drop_older(home, age)


def _check_retention(hours: int, *, is_forced: bool) -> None:
    if hours < 0:
        raise UsageError(f"A retention of {hours} hours is none.", hint="Give 0 or more.")
    if hours < SAFE_HOURS and not is_forced:
        message = f"A retention of {hours} hours may remove files that a query is reading right now."
        hint = f"Keep at least {SAFE_HOURS} hours, or add --force if nobody is reading the lake."
        raise UsageError(message, hint=hint)


def _require_rest(home: Home) -> None:
    holder = holder_of(home.lake / ".lock")
    if holder is not None:
        message = f"A pipeline is at work on {home.lake} ({holder}): files that it is writing would be removed."
        raise ClewError(message, hint=f"Stop it first, or keep at least {SAFE_HOURS} hours.")


def _refresh(home: Home, say: Say, master: str, conf: Mapping[str, str] | None) -> None:
    # Loaded only here: upkeep of a lake that is up to date needs no Spark.
    from clew.pipeline.work import open_pipeline

    with open_pipeline(home, say=say, master=master, conf=conf) as pipeline:
        pipeline.refresh()
