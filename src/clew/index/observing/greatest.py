"""Maximum of nullable strings, like `max_of` in `MERGE_SPECS`."""

from __future__ import annotations


def max_or_none(left: str | None, right: str | None) -> str | None:
    """Return the greater string; None only if both are None."""
    return left if right is None else right if left is None else max(left, right)
