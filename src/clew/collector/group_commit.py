"""Group commit: append the events of many requests with one sync, then acknowledge them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from msgspec import Struct

from clew.collector.fsync_process import FsyncHelper
from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogEntry, LogWriter, UnsyncedWrite

# OpenLineage clients time out after five seconds and resend the event.
ACK_TIMEOUT_SECONDS = 4.5

# Receives the error, or None on success.
AckCallback: TypeAlias = Callable[[Exception | None], None]


class OverloadedError(ClewError):
    """Events cannot be stored before clients time out (HTTP 503)."""


class AckGroup:
    """Runs the ack callbacks of one commit group once: with the result, or with a timeout error.

    One timer per group: one per request would cost as much as reading the request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._callbacks: list[AckCallback] = []
        self._timer = loop.call_later(ACK_TIMEOUT_SECONDS, self._time_out)

    def add(self, callback: AckCallback) -> None:
        """Add a callback."""
        self._callbacks.append(callback)

    def resolve(self, error: Exception | None) -> None:
        """Run the callbacks with the result."""
        self._timer.cancel()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(error)

    def _time_out(self) -> None:
        self.resolve(OverloadedError("Timed out waiting for the log to be synced.", hint="Retry in a moment."))


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


# About a millisecond of the event loop.
_MAX_INLINE_BYTES = 1 << 20


class WriterLock:
    """Lock of the log writer: threads block on it, the event loop only tries it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_requested = False

    @contextmanager
    def acquire(self) -> Iterator[None]:
        """Hold the lock; a waiting thread has precedence over the event loop."""
        self._is_requested = True
        with self._lock:
            self._is_requested = False
            yield

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free and no thread waits; return whether it was acquired."""
        return not self._is_requested and self._lock.acquire(blocking=False)

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()


class _Batch:
    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.memory_bytes = 0
        self.ack_groups: list[AckGroup] = []


class _InFlightSync(Struct, frozen=True):
    batch: _Batch
    written: UnsyncedWrite
    started_at: float


class EventLoopWriter:
    """Stores the events of one event loop; large batches are delegated to the writer thread."""

    def __init__(
        self,
        log: LogWriter,
        writer_lock: WriterLock,
        delegate: Callable[[PendingWrite], None],
        on_commit: Callable[[CommitStats], None],
    ) -> None:
        self._log = log
        self._writer_lock = writer_lock
        self._delegate = delegate
        self._on_commit = on_commit
        self._batch = _Batch()
        # Callbacks of the current iteration of the loop.
        self._ack_group: AckGroup | None = None
        self._fsync_process: FsyncHelper | None = None
        self._in_flight: _InFlightSync | None = None

    @property
    def pending_bytes(self) -> int:
        """Bytes waiting to be written."""
        return self._batch.memory_bytes

    def append(self, entries: Sequence[LogEntry], size: int, on_ack: AckCallback) -> None:
        """Add entries to the batch of this loop iteration, or of the sync in flight."""
        if self._ack_group is None:
            loop = asyncio.get_running_loop()
            self._ack_group = AckGroup(loop)
            self._batch.ack_groups.append(self._ack_group)
            loop.call_soon(self._flush)
        self._ack_group.add(on_ack)
        self._batch.entries += entries
        self._batch.memory_bytes += size

    def drain(self) -> None:
        """Write or delegate everything that is pending, blocking; nothing may be appended afterwards."""
        while self._in_flight is not None or self._batch.entries:
            if self._in_flight is None:
                self._write_or_delegate()
            else:
                self._finish_sync()

    def close(self) -> None:
        """Stop the helper process."""
        helper, self._fsync_process = self._fsync_process, None
        if helper is not None:
            helper.close()

    def _flush(self) -> None:
        self._ack_group = None
        if self._in_flight is None and self._batch.entries:
            self._write_or_delegate()

    def _write_or_delegate(self) -> None:
        batch, self._batch, self._ack_group = self._batch, _Batch(), None
        helper = self._get_fsync_process(batch.ack_groups[0].loop)
        if helper is not None and batch.memory_bytes <= _MAX_INLINE_BYTES and self._writer_lock.try_acquire():
            self._write(batch, helper)
            return
        try:
            self._delegate(PendingWrite(batch.entries, batch.memory_bytes, batch.ack_groups))
        except OverloadedError as error:
            run_callbacks(batch.ack_groups, error)

    def _get_fsync_process(self, loop: asyncio.AbstractEventLoop) -> FsyncHelper | None:
        if self._fsync_process is None:
            # If no process can be started, the writer thread takes over.
            with suppress(OSError):
                self._fsync_process = FsyncHelper(loop, self._finish_sync)
        return self._fsync_process

    def _write(self, batch: _Batch, helper: FsyncHelper) -> None:
        started_at = time.perf_counter()
        try:
            written = self._log.write(batch.entries)
        except Exception as error:  # noqa: BLE001  # passed to the waiters
            self._writer_lock.release()
            self._acknowledge(batch, started_at, error)
        else:
            self._in_flight = _InFlightSync(batch, written, started_at)
            helper.start(self._log.file_descriptor)

    def _finish_sync(self) -> None:
        in_flight, self._in_flight = self._in_flight, None
        if in_flight is None or self._fsync_process is None:
            # Readable without a request: the process has exited. The next write starts another.
            self.close()
            return
        error: Exception | None = None
        try:
            if not self._fsync_process.finish(self._log.file_descriptor):
                self.close()
            self._log.commit(in_flight.written)
        except OSError as exc:
            error = self._rollback(exc)
        self._writer_lock.release()
        if self._batch.entries:
            # Start the next write before running callbacks, so that the disk is busy.
            self._write_or_delegate()
        self._acknowledge(in_flight.batch, in_flight.started_at, error)

    def _rollback(self, error: OSError) -> Exception:
        try:
            return self._log.rollback(error)
        except OSError as exc:
            return exc

    def _acknowledge(self, batch: _Batch, started_at: float, error: Exception | None) -> None:
        self._on_commit(commit_stats(batch.entries, time.perf_counter() - started_at, is_stored=error is None))
        run_callbacks(batch.ack_groups, error)


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
