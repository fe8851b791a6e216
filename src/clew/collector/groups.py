"""Pending writes of a commit group and their acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Future

from msgspec import Struct

from clew.collector.log import LogEntry
from clew.collector.patience import AckGroup


class CommitStats(Struct, frozen=True):
    """Size and duration of one group commit."""

    events: int
    bytes: int
    seconds: float
    is_stored: bool


class PendingWrite(Struct, frozen=True):
    """Entries to write together, and their waiters: a thread's future, or ack groups of an event loop."""

    entries: Sequence[LogEntry]
    memory_bytes: int
    waiters: Future[None] | Sequence[AckGroup]


def commit_stats(entries: Iterable[LogEntry], seconds: float, *, is_stored: bool) -> CommitStats:
    """Compute the statistics of a commit."""
    sizes = [len(entry.body) for entry in entries]
    return CommitStats(len(sizes), sum(sizes), seconds, is_stored)


def memory_size(entries: Sequence[LogEntry]) -> int:
    """Return the bytes of entries in memory. Spooled ones are views of a file and do not count."""
    return sum([len(entry.body) for entry in entries if isinstance(entry.body, bytes)])


def resolve_writes(writes: Sequence[PendingWrite], error: Exception | None) -> None:
    """Resolve the waiters of writes with the result; callable from any thread."""
    ack_groups: dict[asyncio.AbstractEventLoop, list[AckGroup]] = {}
    for write in writes:
        if not isinstance(write.waiters, Future):
            for ack_group in write.waiters:
                ack_groups.setdefault(ack_group.loop, []).append(ack_group)
        elif error is None:
            write.waiters.set_result(None)
        else:
            write.waiters.set_exception(error)
    for loop, groups in ack_groups.items():
        # Wake each loop once.
        loop.call_soon_threadsafe(run_callbacks, groups, error)


def run_callbacks(ack_groups: Sequence[AckGroup], error: Exception | None) -> None:
    """Resolve ack groups; call it on their event loop."""
    for ack_group in ack_groups:
        ack_group.resolve(error)
