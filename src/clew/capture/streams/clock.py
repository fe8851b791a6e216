"""Times as events write them."""

from __future__ import annotations

from datetime import UTC, datetime


def written(moment: float) -> str:
    """RFC 3339 in UTC with microseconds."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")
