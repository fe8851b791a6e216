"""Timestamp formatting of events."""

from __future__ import annotations

from datetime import UTC, datetime


def format_timestamp(timestamp: float) -> str:
    """Format a timestamp as RFC 3339 in UTC with microseconds."""
    return datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="microseconds")
