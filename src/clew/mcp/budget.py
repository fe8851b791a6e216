"""Replies that fit: an agent pays for every token that it reads."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel

from clew.errors import UsageError

# Below 4,000 by whatever way they are counted: three characters to one is a guess.
DEFAULT_TOKENS: Final = 3800
FEWEST_TOKENS: Final = 300
MOST_TOKENS: Final = 50_000
# Prose comes to four characters per token; JSON, paths and code, which replies are made of, to about three.
_CHARACTERS_PER_TOKEN: Final = 3
_LONGEST_CURSOR: Final = 12
_ELLIPSIS: Final = "…"

Item = TypeVar("Item")


@dataclass(frozen=True)
class Reply:
    """One answer twice: in words, and as data."""

    text: str
    data: BaseModel

    @property
    def tokens(self) -> int:
        """About what it costs to read, both forms together: a client may show either, or both."""
        return (len(self.text) + len(self.data.model_dump_json())) // _CHARACTERS_PER_TOKEN


def fitting(compose: Callable[[int], Reply], most: int, tokens: int) -> Reply:
    """The fullest reply within the budget; `compose` is told how many entries each of its lists may have."""
    whole = compose(most)
    if whole.tokens <= tokens:
        return whole
    return compose(bisect_right(range(1, most + 1), tokens, key=lambda entries: compose(entries).tokens))


def start_of(cursor: str | None) -> int:
    """Where a list goes on. A cursor that this server never gave is a mistake, and no reason to start anew."""
    if cursor is None:
        return 0
    if not cursor.isdecimal() or len(cursor) > _LONGEST_CURSOR:
        raise UsageError(f"{cursor!r} is no cursor.", hint="Give back `next_cursor` as it came, or leave it out.")
    return int(cursor)


def next_cursor(start: int, entries: int, total: int) -> str | None:
    """What to give back to see the rest; None if there is none."""
    return str(start + entries) if entries and start + entries < total else None


def shown(entries: int, total: int) -> str:
    """`3`, or `shown 2 of 3`; a cursor of an answer that was longer shows nothing."""
    past = "" if entries else ", the cursor is past the end"
    return f"{total:,}" if entries >= total else f"shown {entries:,} of {total:,}{past}"


def clipped(text: str, length: int) -> str:
    """One line of text, no longer than `length`."""
    line = " ".join(text.split())
    return line if len(line) <= length else f"{line[: length - 1]}{_ELLIPSIS}"


def longest(*lists: Sequence[Item]) -> int:
    """How many entries the longest list has."""
    return max(map(len, lists), default=0)
