"""How an entity is named in the index: its identity in one text."""

from __future__ import annotations

# A character that no producer writes into a name.
_BETWEEN = "\x1f"


def entity(*parts: str | None) -> str:
    """Join the parts of an identity; an absent part is empty."""
    return _BETWEEN.join(part or "" for part in parts)
