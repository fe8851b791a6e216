"""Group commit: append the events of many requests with one sync, then acknowledge them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogEntry, LogWriter

# OpenLineage clients time out after five seconds and resend the event.
ACK_TIMEOUT_SECONDS = 4.5
# A few seconds of work for a slow disk; beyond it, requests are rejected with 503 instead of delayed.
_MAX_PENDING_BYTES = 64 << 20


class OverloadedError(ClewError):
    """Events cannot be stored before clients time out (HTTP 503)."""


class CommitStats(Struct, frozen=True):
    """Size and duration of one group commit."""

    events: int
    bytes: int
    seconds: float
    is_stored: bool


class AckGroup:
    """Entries that are stored together.

    `result` is set by the writer thread when all are synced, or to the error if none is stored. Requests wait for
    `ack`, which also fails at the deadline: one timer per request would cost as much as reading the request.
    """

    ack: asyncio.Future[None]

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.memory_bytes = 0
        self.result = Future[None]()

    def add(self, entries: Sequence[LogEntry], memory_bytes: int) -> None:
        """Add entries."""
        self.entries += entries
        self.memory_bytes += memory_bytes


class Appender:
    """Appends to the log of a running collector, on a writer thread.

    Use as a context manager: on exit it stores what is queued. While a group is synced, the next ones are collected;
    they are written together.
    """

    def __init__(
        self,
        log: LogWriter,
        max_pending_bytes: int = _MAX_PENDING_BYTES,
        on_commit: Callable[[CommitStats], None] = lambda _: None,
    ) -> None:
        self._log = log
        self._max_pending_bytes = max_pending_bytes
        self._on_commit = on_commit
        self._condition = threading.Condition()
        self._queue: list[AckGroup] = []
        self._queued_bytes = 0
        # Joined by the requests of the current loop iteration.
        self._open_group: AckGroup | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="clew-appender")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        self._thread.join()

    @property
    def folder(self) -> Path:
        """Folder of the log."""
        return self._log.folder

    @property
    def pending_bytes(self) -> int:
        """Bytes of events in memory that are waiting to be written."""
        return self._queued_bytes + (self._open_group.memory_bytes if self._open_group is not None else 0)

    def check_ready(self) -> None:
        """Raise OverloadedError if a new event would be rejected."""
        if not self._thread.is_alive():
            raise _shutting_down_error()
        self._check_backpressure(0)

    async def store(self, entries: Sequence[LogEntry]) -> None:
        """Store entries from the event loop and wait until they are synced, or until the deadline."""
        memory_bytes = _memory_size(entries)
        self._check_backpressure(memory_bytes)
        group = self._open_group
        if group is None:
            group = self._open_group = AckGroup()
            group.ack = asyncio.create_task(self._commit(group))
        group.add(entries, memory_bytes)
        # A cancelled request must not cancel the other requests of its group.
        await asyncio.shield(group.ack)

    async def _commit(self, group: AckGroup) -> None:
        """Queue a group and wait for its result. As a task, it starts when this iteration's requests have joined."""
        self._open_group = None
        self._enqueue(group)
        result = asyncio.wrap_future(group.result)
        await asyncio.wait([result], timeout=ACK_TIMEOUT_SECONDS)
        if not result.done():
            raise OverloadedError("Timed out waiting for the log to be synced.", hint="Retry in a moment.")
        result.result()

    def append(self, events: Iterable[IncomingEvent]) -> int:
        """Append events from another thread, wait until they are synced and return their number."""
        entries = [LogEntry.from_event(event) for event in events]
        self.submit(entries).result()
        return len(entries)

    def submit(self, entries: Sequence[LogEntry]) -> Future[None]:
        """Queue entries from another thread; the future resolves when all are synced, or fails if none is stored."""
        group, memory_bytes = AckGroup(), _memory_size(entries)
        self._check_backpressure(memory_bytes)
        group.add(entries, memory_bytes)
        self._enqueue(group)
        return group.result

    def _check_backpressure(self, memory_bytes: int) -> None:
        if self._is_closed:
            raise _shutting_down_error()
        pending = self.pending_bytes
        # An event of any size is accepted when nothing is pending.
        if pending and pending + memory_bytes > self._max_pending_bytes:
            message = f"The collector is overloaded: {pending >> 20} MB are waiting to be stored."
            raise OverloadedError(message, hint="Retry in a moment.")

    def _enqueue(self, group: AckGroup) -> None:
        with self._condition:
            if self._is_closed:
                raise _shutting_down_error()
            self._queue.append(group)
            self._queued_bytes += group.memory_bytes
            self._condition.notify()

    def _run(self) -> None:
        """Write all queued groups with one sync, until the queue is empty and closed."""
        while groups := self._wait_for_groups():
            entries = [entry for group in groups for entry in group.entries]
            start, error = time.perf_counter(), None
            try:
                self._log.append_entries(entries)
            except Exception as exc:  # noqa: BLE001  # passed to those who wait
                error = exc
            stats = CommitStats(
                len(entries), sum(len(entry.body) for entry in entries), time.perf_counter() - start, error is None
            )
            self._on_commit(stats)
            for group in groups:
                if error is None:
                    group.result.set_result(None)
                else:
                    group.result.set_exception(error)

    def _wait_for_groups(self) -> list[AckGroup]:
        with self._condition:
            self._condition.wait_for(lambda: self._queue or self._is_closed)
            groups, self._queue, self._queued_bytes = self._queue, [], 0
            return groups


def _memory_size(entries: Sequence[LogEntry]) -> int:
    """Return the bytes of entries in memory. Spooled ones are views of a file and do not count."""
    return sum([len(entry.body) for entry in entries if isinstance(entry.body, bytes)])


def _shutting_down_error() -> OverloadedError:
    return OverloadedError("The collector is shutting down.", hint="Retry in a moment.")
