"""Parsing of event times, tolerant of the formats that producers use."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

# Java prints `…Z[Europe/London]`; RFC 3339 allows lower case, and some producers write the zone twice (`+00:00Z`).
_ZONE_NAME = re.compile(r"\[[^\]]*\]$")
_REPEATED_ZONE = re.compile(r"(?<=[+-]\d\d:\d\d|.[+-]\d\d\d\d)Z$")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


# The time of an event is parsed once per table that it adds rows to.
@lru_cache(256)
def parse_time(text: str) -> datetime:
    """Parse a timestamp to UTC; without a zone it is UTC. ValueError if it is invalid."""
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        timestamp = datetime.fromisoformat(_normalize_iso(text))
    if timestamp.tzinfo is None:
        return timestamp.replace(tzinfo=UTC)
    try:
        return timestamp.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} is outside the years 1 to 9999 in UTC") from error


def to_epoch_micros(timestamp: datetime) -> int:
    """Convert to exact microseconds since 1970."""
    return (timestamp - _EPOCH) // _MICROSECOND


def _normalize_iso(text: str) -> str:
    return _REPEATED_ZONE.sub("", _ZONE_NAME.sub("", text.strip()).upper())
