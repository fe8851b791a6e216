"""LIKE patterns."""

from __future__ import annotations

import re
from typing import Final

# Condition with the number of the pattern's parameter; ASCII letters match regardless of case.
IS_LIKE: Final = "like ?{} escape '\\'"
_LIKE_WILDCARDS = re.compile(r"[\\%_]")
# SQLite rejects patterns of more than 50,000 bytes.
_MAX_PATTERN_LENGTH = 2000


def like_pattern(text: str) -> str:
    """Return the pattern that matches names that contain the text; a very long text is truncated."""
    # A NUL would end the pattern.
    truncated = text[:_MAX_PATTERN_LENGTH].replace("\x00", "\ufffd")
    escaped = _LIKE_WILDCARDS.sub(lambda match: f"\\{match[0]}", truncated)
    return f"%{escaped}%"
