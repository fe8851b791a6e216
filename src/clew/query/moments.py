"""Times as the index keeps them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int | None) -> datetime | None:
    """A point in time from microseconds since 1970."""
    return None if microseconds is None else EPOCH + timedelta(microseconds=microseconds)
