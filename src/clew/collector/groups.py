"""What is written to the log at once, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Future

from msgspec import Struct

from clew.collector.log import Entry
from clew.collector.patience import Patience


class Group(Struct, frozen=True):
    """What was written at once, and how long that took; `is_stored` tells whether it is on disk."""

    events: int
    bytes: int
    seconds: float
    is_stored: bool


class Waiting(Struct, frozen=True):
    """Entries to be written together, and whoever waits for them: a thread, or a loop that goes on meanwhile."""

    entries: Sequence[Entry]
    held_bytes: int
    stored: Future[None] | Sequence[Patience]


def group_of(entries: Iterable[Entry], seconds: float, *, is_stored: bool) -> Group:
    """What to tell of entries that were written, or could not be."""
    sizes = [len(entry.body) for entry in entries]
    return Group(len(sizes), sum(sizes), seconds, is_stored)


def held_bytes(entries: Sequence[Entry]) -> int:
    """What entries take of the memory: a large one is a view of its file, and only one of those comes at a time."""
    return sum([len(entry.body) for entry in entries if isinstance(entry.body, bytes)])


def answer(group: Sequence[Waiting], fault: Exception | None) -> None:
    """Tell all who wait, from any thread, how it ended."""
    waiting: dict[asyncio.AbstractEventLoop, list[Patience]] = {}
    for one in group:
        if not isinstance(one.stored, Future):
            for patience in one.stored:
                waiting.setdefault(patience.loop, []).append(patience)
        elif fault is None:
            one.stored.set_result(None)
        else:
            one.stored.set_exception(fault)
    for loop, patiences in waiting.items():
        # A loop is woken once, not once for each.
        loop.call_soon_threadsafe(end_all, patiences, fault)


def end_all(patiences: Sequence[Patience], fault: Exception | None) -> None:
    """The same, on their loop."""
    for patience in patiences:
        patience.end(fault)
