"""Group commit: queued events are written and synced together, then acknowledged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from clew.collector.groups import CommitStats, PendingWrite, commit_stats, memory_size, resolve_writes
from clew.collector.log import IncomingEvent, LogEntry, LogWriter
from clew.collector.loop_writer import EventLoopWriter, WriterLock
from clew.collector.patience import AckCallback, OverloadedError

# A few seconds of work for a slow disk; beyond it, requests are rejected with 503 instead of delayed.
_MAX_PENDING_BYTES = 64 << 20


class Appender:
    """Appends to the log of a running collector. Use as a context manager: it drains on exit.

    Small writes of the event loop run on the loop; large ones and those of other threads run on a writer thread.
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
        self._queue: list[PendingWrite] = []
        self._queued_bytes = 0
        self._writer_lock = WriterLock()
        self._loop_writer = EventLoopWriter(log, self._writer_lock, self._enqueue, on_commit)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="clew-appender")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop_writer.drain()
        with self._condition:
            self._is_closed = True
            self._condition.notify()
        self._thread.join()
        self._loop_writer.close()

    @property
    def folder(self) -> Path:
        """Folder of the log."""
        return self._log.folder

    @property
    def pending_bytes(self) -> int:
        """Bytes of queued events."""
        return self._queued_bytes + self._loop_writer.pending_bytes

    def check_ready(self) -> None:
        """Raise OverloadedError if a new event would be rejected."""
        if not self._thread.is_alive():
            raise _shutting_down_error()
        self._check_backpressure(0)

    def append(self, events: Iterable[IncomingEvent]) -> int:
        """Append events, wait until they are synced and return their number."""
        entries = [LogEntry.from_event(event) for event in events]
        self.submit(entries).result()
        return len(entries)

    def submit(self, entries: Sequence[LogEntry]) -> Future[None]:
        """Queue entries; the future resolves when all are synced, or fails if none is stored."""
        future, size = Future[None](), memory_size(entries)
        self._check_backpressure(size)
        self._enqueue(PendingWrite(entries, size, future))
        return future

    def append_nowait(self, entries: Sequence[LogEntry], on_ack: AckCallback) -> None:
        """Queue entries from the event loop; `on_ack` is called on the loop."""
        size = memory_size(entries)
        self._check_backpressure(size)
        self._loop_writer.append(entries, size, on_ack)

    def _enqueue(self, pending: PendingWrite) -> None:
        with self._condition:
            if self._is_closed:
                raise _shutting_down_error()
            self._queue.append(pending)
            self._queued_bytes += pending.memory_bytes
            self._condition.notify()

    def _check_backpressure(self, size: int) -> None:
        if self._is_closed:
            raise _shutting_down_error()
        pending = self.pending_bytes
        # An event of any size is accepted when nothing is pending.
        if pending and pending + size > self._max_pending_bytes:
            message = f"The collector is overloaded: {pending >> 20} MB are waiting to be stored."
            raise OverloadedError(message, hint="Retry in a moment.")

    def _run(self) -> None:
        while self._wait_for_work():
            with self._writer_lock.acquire():
                writes = self._pop_group()
                entries = [entry for write in writes for entry in write.entries]
                start, error = time.perf_counter(), None
                try:
                    self._log.append_entries(entries)
                except Exception as exc:  # noqa: BLE001  # passed to the waiters
                    error = exc
            self._on_commit(commit_stats(entries, time.perf_counter() - start, is_stored=error is None))
            resolve_writes(writes, error)

    def _wait_for_work(self) -> bool:
        """Wait for queued writes; False when the collector has stopped."""
        with self._condition:
            self._condition.wait_for(lambda: self._queue or self._is_closed)
            return bool(self._queue)

    def _pop_group(self) -> list[PendingWrite]:
        with self._condition:
            writes, self._queue, self._queued_bytes = self._queue, [], 0
        return writes


def _shutting_down_error() -> OverloadedError:
    return OverloadedError("The collector is shutting down.", hint="Retry in a moment.")
