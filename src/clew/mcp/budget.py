"""Replies within a token budget, and paging."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel

from clew.errors import UsageError

# Below 4,000 tokens with a margin, since three characters per token is an estimate.
DEFAULT_TOKENS: Final = 3800
MIN_TOKENS: Final = 300
MAX_TOKENS: Final = 50_000
# About three for JSON, paths and code, which replies consist of; four for prose.
_CHARACTERS_PER_TOKEN: Final = 3
_MAX_CURSOR_LENGTH: Final = 12
_ELLIPSIS: Final = "…"

Item = TypeVar("Item")


@dataclass(frozen=True)
class ToolReply:
    """Reply of a tool, as text and as structured content."""

    text: str
    data: BaseModel

    @property
    def tokens(self) -> int:
        """Estimated tokens of text and data together, since a client may show both."""
        return (len(self.text) + len(self.data.model_dump_json())) // _CHARACTERS_PER_TOKEN


def fit_to_budget(compose: Callable[[int], ToolReply], max_entries: int, tokens: int) -> ToolReply:
    """Return the longest reply within the budget; `compose` gets the maximum number of entries per list."""
    full = compose(max_entries)
    if full.tokens <= tokens:
        return full
    return compose(bisect_right(range(1, max_entries + 1), tokens, key=lambda entries: compose(entries).tokens))


def parse_cursor(cursor: str | None) -> int:
    """Return the offset of a cursor; an invalid cursor is an error rather than the first page."""
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > _MAX_CURSOR_LENGTH:
        raise UsageError(f"Invalid cursor {cursor!r}.", hint="Pass `next_cursor` unchanged, or omit the cursor.")
    return int(cursor)


def next_cursor(start: int, entries: int, total: int) -> str | None:
    """Return the cursor of the next page; None at the end."""
    return str(start + entries) if entries and start + entries < total else None


def more_line(cursor: str | None) -> list[str]:
    """Return the line that names the cursor of the next page, if there is one."""
    return [] if cursor is None else [f"For more, pass cursor {cursor}."]


def count_label(entries: int, total: int) -> str:
    """Format a count: `3`, or `shown 2 of 3`."""
    past_end = "" if entries else ", the cursor is past the end"
    return f"{total:,}" if entries >= total else f"shown {entries:,} of {total:,}{past_end}"


def truncate(text: str, length: int) -> str:
    """Join a text into one line of at most `length` characters."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}{_ELLIPSIS}"


def max_len(*lists: Sequence[Item]) -> int:
    """Return the length of the longest list."""
    return max(map(len, lists), default=0)
