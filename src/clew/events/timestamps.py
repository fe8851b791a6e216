"""Event times as producers really write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

# Java prints `…Z[Europe/London]`; RFC 3339 allows small letters, and some producers write the zone twice (`+00:00Z`).
_ZONE_NAME = re.compile(r"\[[^\]]*\]$")
_ZONE_TWICE = re.compile(r"(?<=[+-]\d\d:\d\d|.[+-]\d\d\d\d)Z$")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


# An event's time is read for every table that it adds rows to.
@lru_cache(256)
def parse_time(text: str) -> datetime:
    """Read a timestamp; without a zone it is UTC. Raises ValueError for what is no time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = datetime.fromisoformat(_plain_iso(text))
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone(UTC)
    except OverflowError as fault:
        raise ValueError(f"{text!r} lies outside the years 1 to 9999 in UTC") from fault


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970, exactly."""
    return (moment - _EPOCH) // _MICROSECOND


def _plain_iso(text: str) -> str:
    return _ZONE_TWICE.sub("", _ZONE_NAME.sub("", text.strip()).upper())
