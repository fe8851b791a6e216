"""Counts of events and entities per hour or day."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from msgspec import Struct

from clew.events.timestamps import to_epoch_micros
from clew.index.catalog import EntityQueries

HOURS = 24
DAYS = 7


class Interval(Struct, frozen=True):
    """A time interval; the end is exclusive."""

    start: datetime
    end: datetime


class EventCount(Struct, frozen=True):
    """Number of run events in an interval, by type."""

    interval: Interval
    fail: int
    start: int
    complete: int
    abort: int


class EntityCount(Struct, frozen=True):
    """Number of entities at the end of an interval."""

    interval: Interval
    count: int


def hourly_intervals(now: datetime) -> list[Interval]:
    """Return the hours of the last day, including the current hour."""
    first = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    return [Interval(first + timedelta(hours=n), first + timedelta(hours=n + 1)) for n in range(HOURS)]


def daily_intervals(now: datetime, zone: tzinfo) -> list[Interval]:
    """Return the days of the last week in a time zone, including today."""
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today - timedelta(days=n) for n in range(DAYS - 1, -2, -1)]
    boundaries = [day.astimezone(UTC) for day in days]
    return [Interval(*ends) for ends in pairwise(boundaries)]


def count_events(reader: EntityQueries, intervals: Sequence[Interval]) -> list[EventCount]:
    """Count run events by type in consecutive intervals."""
    ends = [to_epoch_micros(interval.end) for interval in intervals]
    rows = reader.event_types(to_epoch_micros(intervals[0].start), ends[-1])
    counts = Counter((bisect_left(ends, row["event_time"] + 1), row["event_type"]) for row in rows)
    types = ("FAIL", "START", "COMPLETE", "ABORT")
    return [
        EventCount(interval, *(counts[number, kind] for kind in types)) for number, interval in enumerate(intervals)
    ]


def count_entities(reader: EntityQueries, kind: str, intervals: Sequence[Interval]) -> list[EntityCount]:
    """Count the jobs or datasets first seen before the end of each interval."""
    first_seen = reader.first_seen(kind, to_epoch_micros(intervals[-1].end))
    return [EntityCount(interval, bisect_left(first_seen, to_epoch_micros(interval.end))) for interval in intervals]
