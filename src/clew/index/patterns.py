"""Patterns of names: whatever holds a text."""

from __future__ import annotations

import re
from typing import Final

# Holds the text of a pattern, whether its letters, those of English, are small or large.
IS_LIKE: Final = "like ?{} escape '\\'"
_LIKE_SIGNS = re.compile(r"[\\%_]")
# SQLite refuses patterns of more than 50,000 bytes.
_MOST_LIKE = 2000


def containing(text: str) -> str:
    """The pattern of names that hold a text; of one that is longer than names are, its beginning."""
    # A pattern would end at a NUL.
    plain = text[:_MOST_LIKE].replace("\x00", "\ufffd")
    escaped = _LIKE_SIGNS.sub(lambda sign: f"\\{sign[0]}", plain)
    return f"%{escaped}%"
