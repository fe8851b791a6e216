"""Group commit on the event loop: writes a batch while a helper process syncs the previous one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from clew.collector.groups import CommitStats, PendingWrite, commit_stats, run_callbacks
from clew.collector.log import LogEntry, LogWriter, UnsyncedWrite
from clew.collector.patience import AckCallback, AckGroup, OverloadedError
from clew.collector.syncing import FsyncHelper

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
        self._fsync_helper: FsyncHelper | None = None
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
        helper, self._fsync_helper = self._fsync_helper, None
        if helper is not None:
            helper.close()

    def _flush(self) -> None:
        self._ack_group = None
        if self._in_flight is None and self._batch.entries:
            self._write_or_delegate()

    def _write_or_delegate(self) -> None:
        batch, self._batch, self._ack_group = self._batch, _Batch(), None
        helper = self._get_fsync_helper(batch.ack_groups[0].loop)
        if helper is not None and batch.memory_bytes <= _MAX_INLINE_BYTES and self._writer_lock.try_acquire():
            self._write(batch, helper)
            return
        try:
            self._delegate(PendingWrite(batch.entries, batch.memory_bytes, batch.ack_groups))
        except OverloadedError as error:
            run_callbacks(batch.ack_groups, error)

    def _get_fsync_helper(self, loop: asyncio.AbstractEventLoop) -> FsyncHelper | None:
        if self._fsync_helper is None:
            # If no process can be started, the writer thread takes over.
            with suppress(OSError):
                self._fsync_helper = FsyncHelper(loop, self._finish_sync)
        return self._fsync_helper

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
        if in_flight is None or self._fsync_helper is None:
            # Readable without a request: the process has exited. The next write starts another.
            self.close()
            return
        error: Exception | None = None
        try:
            if not self._fsync_helper.finish(self._log.file_descriptor):
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
