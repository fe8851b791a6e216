"""Retention by age of events in the lake, the index and the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from clew.collector.expiry import drop_segments
from clew.collector.lag import next_position
from clew.home import DataDir
from clew.index.places import open_backend
from clew.index.reader import IndexReader
from clew.index.store import MissingIndexError
from clew.lake.delta import Lake
from clew.lake.retention import delete_rows_before, find_expired_seqs
from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.lock import acquire_lock


class RetentionResult(Struct):
    """Deleted rows by table; number and bytes of deleted log segments."""

    deleted_rows: dict[str, int] = field(default_factory=dict)
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


def expire_events(home: DataDir, age: timedelta) -> RetentionResult:
    """Delete events older than `age`. The index is deleted first: the next pipeline rebuilds it from the lake."""
    cutoff = datetime.now(UTC) - age
    # A running pipeline or backfill would write rows of deleted events.
    with acquire_lock(home.lake / ".lock") as check_lock, acquire_lock(home.lake / ".backfill.lock", "backfill"):
        lake, result = Lake(home.lake, check_lock), RetentionResult()
        events = find_expired_seqs(lake, cutoff)
        if len(events):
            open_backend(home.index).remove()
            result.deleted_rows = delete_rows_before(lake, cutoff, events)
        committed = Checkpoint(home.checkpoint).committed_offset
        result.segments, result.segment_bytes = drop_segments(home.log, cutoff, committed)
    return result
