"""How much there was by the hour or the day."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from msgspec import Struct

from clew.events.timestamps import microseconds
from clew.index.catalog import CatalogReader

HOURS = 24
DAYS = 7


class Interval(Struct, frozen=True):
    """From a moment up to another."""

    start: datetime
    end: datetime


class EventCount(Struct, frozen=True):
    """How many runs failed, started, completed and were aborted in an interval."""

    interval: Interval
    fail: int
    start: int
    complete: int
    abort: int


class EntityCount(Struct, frozen=True):
    """How many there were at the end of an interval."""

    interval: Interval
    count: int


def last_hours(now: datetime) -> list[Interval]:
    """The last day, by the hour; the last interval is the hour under way."""
    first = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    return [Interval(first + timedelta(hours=n), first + timedelta(hours=n + 1)) for n in range(HOURS)]


def last_days(now: datetime, zone: tzinfo) -> list[Interval]:
    """The last week, by the day as a time zone has it; the last interval is today."""
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today - timedelta(days=n) for n in range(DAYS - 1, -2, -1)]
    moments = [day.astimezone(UTC) for day in days]
    return [Interval(*ends) for ends in pairwise(moments)]


def event_counts(reader: CatalogReader, intervals: Sequence[Interval]) -> list[EventCount]:
    """Events of runs by type, in intervals that follow each other."""
    ends = [microseconds(one.end) for one in intervals]
    rows = reader.event_types(microseconds(intervals[0].start), ends[-1])
    counted = Counter((bisect_left(ends, row["at"] + 1), row["event_type"]) for row in rows)
    types = ("FAIL", "START", "COMPLETE", "ABORT")
    return [EventCount(one, *(counted[place, kind] for kind in types)) for place, one in enumerate(intervals)]


def entity_counts(reader: CatalogReader, kind: str, intervals: Sequence[Interval]) -> list[EntityCount]:
    """How many jobs or datasets were known by the end of each interval."""
    seen = reader.first_seen(kind, microseconds(intervals[-1].end))
    return [EntityCount(one, bisect_left(seen, microseconds(one.end))) for one in intervals]
