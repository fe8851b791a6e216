"""Retention by age: what was received too long ago leaves the lake, the index and the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from clew.collector.expiry import drop_segments
from clew.collector.lag import next_line
from clew.home import Home
from clew.index.places import store_of
from clew.index.reader import IndexReader
from clew.index.store import MissingIndexError
from clew.lake.delta import Lake
from clew.lake.retention import drop_rows, old_events
from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.lock import held


class Dropped(Struct):
    """Rows that were dropped, by table; number and bytes of segments of the log that were removed."""

    rows: dict[str, int] = field(default_factory=dict)
    segments: int = 0
    segment_bytes: int = 0


def drop_log(home: Home, age: timedelta) -> Dropped:
    """Remove segments of the log that are older than that, and of which all is in the lake and in the index.

    May be done while a pipeline is at work: it goes on behind them.
    """
    count, size = drop_segments(home.log, datetime.now(UTC) - age, _indexed(home))
    return Dropped(segments=count, segment_bytes=size)


def _indexed(home: Home) -> int:
    """How far the log is in the lake and in the index, which gets a batch later and may need the log for it."""
    position = Checkpoint(home.checkpoint).position
    try:
        with IndexReader(home.index) as index:
            seq = index.meta("indexed_seq")
    except MissingIndexError:
        # It will be built from the lake.
        return position
    return 0 if seq is None else min(position, next_line(home.log, int(seq)))


def drop_older(home: Home, age: timedelta) -> Dropped:
    """Drop what is older than that. The index goes first: the next pipeline builds it from what is left."""
    cutoff = datetime.now(UTC) - age
    # Neither a pipeline nor a backfill may be at work: they would write what follows from rows that are gone.
    with held(home.lake / ".lock") as require_lock, held(home.lake / ".backfill.lock", "backfill"):
        lake, dropped = Lake(home.lake, require_lock), Dropped()
        events = old_events(lake, cutoff)
        if len(events):
            store_of(home.index).remove()
            dropped.rows = drop_rows(lake, cutoff, events)
        taken = Checkpoint(home.checkpoint).position
        dropped.segments, dropped.segment_bytes = drop_segments(home.log, cutoff, taken)
    return dropped
