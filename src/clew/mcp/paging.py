"""Token budget, cursors and text formatting of tool results."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import BaseModel

from clew.errors import UsageError
from clew.mcp.schemas import DatasetStateEntry
from clew.query.model import DatasetName, DatasetState, shorten
from clew.query.names import full_name, short_name

_MAX_COLUMNS = 12


def full_column_name(dataset: DatasetName, column: str | None) -> str:
    """Return `namespace:dataset.column`."""
    return f"{full_name(dataset)}.{column or '*'}"


def short_column_name(dataset: DatasetName, column: str | None) -> str:
    """Return the short name of the dataset and the column."""
    return f"{short_name(dataset)}.{column or '*'}"


def duration_text(duration: float | None) -> str:
    """Format milliseconds, with a decimal below 10 ms."""
    return "?" if duration is None else f"{duration:,.1f} ms" if duration < 10 else f"{duration:,.0f} ms"


def shape_text(state: DatasetState) -> str:
    """Format a dataset with its numbers of rows and columns: `orders 3,000 × 6`."""
    rows = "?" if state.row_count is None else f"{state.row_count:,}"
    return f"{short_name(state.dataset)} {rows} × {len(state.fields)}"


def to_dataset_state_entry(state: DatasetState) -> DatasetStateEntry:
    """Convert a dataset state, with its first columns."""
    names = [field.name for field in state.fields]
    return DatasetStateEntry(
        dataset=full_name(state.dataset),
        rows=state.row_count,
        columns=names[:_MAX_COLUMNS],
        column_total=len(names),
    )


# Below 4,000 tokens with a margin, since three characters per token is an estimate.
DEFAULT_TOKENS: Final = 3800
MIN_TOKENS: Final = 300
MAX_TOKENS: Final = 50_000
# About three for JSON, paths and code, which replies consist of; four for prose.
_CHARACTERS_PER_TOKEN: Final = 3
_MAX_CURSOR_LENGTH: Final = 12

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


def page_reply(
    items: Sequence[Item],
    cursor: str | None,
    tokens: int,
    compose: Callable[[Sequence[Item], str | None], ToolReply],
    page_size: int | None = None,
) -> ToolReply:
    """Return the longest page from a cursor on; `compose` gets its items and the cursor of the next page."""
    start = parse_cursor(cursor)
    rest = items[start:][:page_size]

    def compose_entries(entries: int) -> ToolReply:
        shown = rest[:entries]
        return compose(shown, next_cursor(start, len(shown), len(items)))

    return fit_to_budget(compose_entries, len(rest), tokens)


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
    return shorten(" ".join(text.split()), length)


def max_len(*lists: Sequence[Item]) -> int:
    """Return the length of the longest list."""
    return max(map(len, lists), default=0)
