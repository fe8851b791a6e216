"""The greater of two texts, where a null is none: what MERGES says, without a database."""

from __future__ import annotations


def greatest(known: str | None, said: str | None) -> str | None:
    """The greater, or the one that is there."""
    return known if said is None else said if known is None else max(known, said)
