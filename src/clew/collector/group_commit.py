"""Group commit: append the events of many requests with one sync, then acknowledge them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, Self, TypeAlias

from msgspec import Struct

from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogEntry

# OpenLineage clients time out after five seconds and resend the event.
ACK_TIMEOUT_SECONDS = 4.5
# All requests of a group have the deadline of the first: one timer each would cost as much as reading the request.
_MAX_JOIN_SECONDS = 0.1
# A few seconds of work for a slow disk; beyond it, requests are rejected with 503 instead of delayed.
_MAX_PENDING_BYTES = 64 << 20
# About a millisecond of the event loop; more is written on the sync thread.
_MAX_INLINE_BYTES = 1 << 20


# Receives the error, or None when the entries are synced.
AckCallback: TypeAlias = Callable[[Exception | None], None]


class OverloadedError(ClewError):
    """Events cannot be stored before clients time out (HTTP 503)."""


class EntryWriter(Protocol):
    """Where entries are stored: the event log, or a Kafka topic."""

    @property
    def folder(self) -> Path:
        """Folder of the log."""

    def append_entries(self, entries: Iterable[LogEntry]) -> int:
        """Store entries and return their number."""

    def write(self, entries: Iterable[LogEntry]) -> None:
        """Write entries. They are stored when `sync` returns."""

    def sync(self) -> None:
        """Store what was written; an error if it is not."""

    def adopt(self, staged: Path) -> None:
        """Make a staged segment the next one of the log."""


class CommitStats(Struct, frozen=True):
    """Size and duration of one group commit."""

    events: int
    bytes: int
    seconds: float
    is_stored: bool


class AckGroup:
    """Entries of several requests that are stored together, with one deadline and one result."""

    def __init__(self, timeout: float | None) -> None:
        """Start a group; without a timeout it has no deadline."""
        self.entries: list[LogEntry] = []
        self._loop = asyncio.get_running_loop()
        self._callbacks: list[AckCallback] = []
        self._timeout = timeout
        self._started_at = self._loop.time()
        self._deadline = None if timeout is None else self._loop.call_later(timeout, self._time_out)

    def accepts(self, timeout: float | None) -> bool:
        """Return whether a request with this timeout can join the group."""
        return timeout == self._timeout and self._loop.time() - self._started_at < _MAX_JOIN_SECONDS

    def add(self, entries: Sequence[LogEntry], on_ack: AckCallback) -> None:
        """Add the entries of a request."""
        self.entries += entries
        self._callbacks.append(on_ack)

    def resolve(self, error: Exception | None) -> None:
        """Run the callbacks with the result, once: after the deadline, none is left."""
        if self._deadline is not None:
            self._deadline.cancel()
        callbacks, self._callbacks = self._callbacks, []
        for on_ack in callbacks:
            on_ack(error)

    def _time_out(self) -> None:
        self.resolve(OverloadedError("Timed out waiting for the log to be synced.", hint="Retry in a moment."))


class Appender:
    """Appends to the log of a running collector. Use as a context manager: on exit it stores what is queued.

    The event loop writes, a thread syncs. Groups that arrive during a sync are written together.
    """

    def __init__(
        self,
        log: EntryWriter,
        max_pending_bytes: int = _MAX_PENDING_BYTES,
        on_commit: Callable[[CommitStats], None] = lambda _: None,
    ) -> None:
        self._log = log
        self._max_pending_bytes = max_pending_bytes
        self._on_commit = on_commit
        self._queue: list[AckGroup] = []
        self._staged: list[tuple[Path, asyncio.Future[None]]] = []
        # Runs while groups are queued or being synced.
        self._commits: asyncio.Task[None] | None = None
        self._is_open = False
        self.pending_bytes = 0
        # Returns what is stored together with entries.
        self.find_companions: Callable[[Sequence[LogEntry]], Sequence[LogEntry]] = lambda _: ()

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._sync_thread = ThreadPoolExecutor(1, thread_name_prefix="clew-sync")
        self._is_open = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_open = False
        if self._commits is not None:
            await self._commits
        self._sync_thread.shutdown()

    @property
    def folder(self) -> Path:
        """Folder of the log."""
        return self._log.folder

    def check_ready(self, memory_bytes: int = 0) -> None:
        """Raise OverloadedError if new events of this size would be rejected."""
        if not self._is_open:
            raise OverloadedError("The collector is shutting down.", hint="Retry in a moment.")
        # An event of any size is accepted when nothing is pending.
        if self.pending_bytes and self.pending_bytes + memory_bytes > self._max_pending_bytes:
            message = f"The collector is overloaded: {self.pending_bytes >> 20} MB are waiting to be stored."
            raise OverloadedError(message, hint="Retry in a moment.")

    def store_nowait(self, entries: Sequence[LogEntry], on_ack: AckCallback, *, has_deadline: bool = True) -> None:
        """Queue entries for the next commit; `on_ack` is called when they are synced, or at the deadline."""
        timeout = ACK_TIMEOUT_SECONDS if has_deadline else None
        # Spooled bodies are views of a file and need no memory.
        memory_bytes = sum([len(entry.body) for entry in entries if isinstance(entry.body, bytes)])
        self.check_ready(memory_bytes)
        if not self._queue or not self._queue[-1].accepts(timeout):
            self._queue.append(AckGroup(timeout))
        self._queue[-1].add(entries, on_ack)
        self.pending_bytes += memory_bytes
        if self._commits is None:
            # Starts when the other requests of this loop iteration have joined.
            self._commits = asyncio.create_task(self._commit_groups())

    async def store(self, entries: Sequence[LogEntry], *, has_deadline: bool = True) -> None:
        """Store entries and wait until they are synced, or until the deadline."""
        stored = asyncio.get_running_loop().create_future()

        def on_ack(error: Exception | None) -> None:
            if stored.cancelled():
                return
            if error is None:
                stored.set_result(None)
            else:
                stored.set_exception(error)

        self.store_nowait(entries, on_ack, has_deadline=has_deadline)
        await stored

    def append(self, events: Iterable[IncomingEvent]) -> int:
        """Append events from another thread, wait until they are synced and return their number."""
        entries = [LogEntry.from_event(event) for event in events]
        self.submit(entries).result()
        return len(entries)

    def submit(self, entries: Sequence[LogEntry]) -> Future[None]:
        """Store entries from another thread, without a deadline; the future fails if none is stored."""
        self.check_ready()
        return asyncio.run_coroutine_threadsafe(self.store(entries, has_deadline=False), self._loop)

    def adopt(self, staged: Path) -> None:
        """Append a staged segment from another thread, and wait until it is part of the log."""
        self.check_ready()
        asyncio.run_coroutine_threadsafe(self._adopt(staged), self._loop).result()

    async def _adopt(self, staged: Path) -> None:
        adopted = self._loop.create_future()
        self._staged.append((staged, adopted))
        if self._commits is None:
            self._commits = asyncio.create_task(self._commit_groups())
        await adopted

    async def _commit_groups(self) -> None:
        """Write and sync all queued groups together, and adopt staged segments between them, until none is queued."""
        while self._queue or self._staged:
            await self._adopt_staged()
            groups, self._queue, self.pending_bytes = self._queue, [], 0
            if not groups:
                continue
            entries = [entry for group in groups for entry in group.entries]
            error = await self._commit([*entries, *self.find_companions(entries)])
            for group in groups:
                # Runs after the next write, so that the disk is busy.
                self._loop.call_soon(group.resolve, error)
        self._commits = None

    async def _adopt_staged(self) -> None:
        staged, self._staged = self._staged, []
        for path, adopted in staged:
            try:
                await self._loop.run_in_executor(self._sync_thread, self._log.adopt, path)
            except Exception as exc:  # noqa: BLE001  # raised in the thread that waits
                adopted.set_exception(exc)
            else:
                adopted.set_result(None)

    async def _commit(self, entries: Sequence[LogEntry]) -> Exception | None:
        """Write and sync entries; return the error if none is stored."""
        start, size = time.perf_counter(), sum([len(entry.body) for entry in entries])
        error = None
        try:
            if size <= _MAX_INLINE_BYTES:
                self._log.write(entries)
                await self._loop.run_in_executor(self._sync_thread, self._log.sync)
            else:
                await self._loop.run_in_executor(self._sync_thread, self._log.append_entries, entries)
        except Exception as exc:  # noqa: BLE001  # raised in the requests of the groups
            error = exc
        self._on_commit(CommitStats(len(entries), size, time.perf_counter() - start, is_stored=error is None))
        return error
