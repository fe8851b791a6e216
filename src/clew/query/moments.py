"""Timestamps as the index stores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def from_epoch_micros(microseconds: int | None) -> datetime | None:
    """Convert microseconds since 1970 (UTC) to a datetime."""
    return None if microseconds is None else EPOCH + timedelta(microseconds=microseconds)
