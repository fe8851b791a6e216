"""Group commit: whatever has queued up is written and synced at once, then all who wait for it are answered."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from clew.collector.groups import Group, Waiting, answer, group_of, held_bytes
from clew.collector.log import Entry, LogWriter, Received
from clew.collector.loop_writer import LoopWriter, Turn
from clew.collector.patience import OverloadedError, Then

# Some seconds of work for the slowest disk: who comes later is told to come back rather than kept waiting.
_MOST_WAITING_BYTES = 64 << 20


class Appender:
    """The one that writes to the log while a collector is at work. Use as a context manager: it drains at the end.

    What a loop brings is written there. A thread sees to what is large, and to what other threads wait for.
    """

    def __init__(
        self,
        log: LogWriter,
        most_waiting_bytes: int = _MOST_WAITING_BYTES,
        listen: Callable[[Group], None] = lambda _: None,
    ) -> None:
        self._log = log
        self._most_waiting_bytes = most_waiting_bytes
        self._listen = listen
        self._changed = threading.Condition()
        self._queue: list[Waiting] = []
        self._queued_bytes = 0
        self._turn = Turn()
        self._on_loop = LoopWriter(log, self._turn, self._enqueue, listen)
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="clew-appender")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._on_loop.drain()
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()
        self._on_loop.close()

    @property
    def folder(self) -> Path:
        """Where the log is."""
        return self._log.folder

    @property
    def waiting_bytes(self) -> int:
        """How much has queued up."""
        return self._queued_bytes + self._on_loop.held_bytes

    def require_ready(self) -> None:
        """OverloadedError if an event that came now would be refused."""
        if not self._thread.is_alive():
            raise _stopping()
        self._require_room(0)

    def append(self, events: Iterable[Received]) -> int:
        """Store events, wait until they are on disk, and say how many they were."""
        entries = [Entry.of(event) for event in events]
        self.store(entries).result()
        return len(entries)

    def store(self, entries: Sequence[Entry]) -> Future[None]:
        """Queue entries; what is returned is done when all of them are on disk, and fails if none of them is."""
        stored, size = Future[None](), held_bytes(entries)
        self._require_room(size)
        self._enqueue(Waiting(entries, size, stored))
        return stored

    def store_meanwhile(self, entries: Sequence[Entry], then: Then) -> None:
        """The same for a running loop, the only one that calls this: `then` is called on it."""
        size = held_bytes(entries)
        self._require_room(size)
        self._on_loop.store(entries, size, then)

    def _enqueue(self, waiting: Waiting) -> None:
        with self._changed:
            if self._is_closed:
                raise _stopping()
            self._queue.append(waiting)
            self._queued_bytes += waiting.held_bytes
            self._changed.notify()

    def _require_room(self, size: int) -> None:
        if self._is_closed:
            raise _stopping()
        waiting = self.waiting_bytes
        # One is always let in, however large it is.
        if waiting and waiting + size > self._most_waiting_bytes:
            message = f"{waiting >> 20} MB are waiting to be stored."
            raise OverloadedError(message, hint="Send the event again, in a moment.")

    def _work(self) -> None:
        while self._has_queued():
            with self._turn.awaited():
                group = self._next_group()
                entries = [entry for waiting in group for entry in waiting.entries]
                start, fault = time.perf_counter(), None
                try:
                    self._log.append_entries(entries)
                except Exception as raised:  # noqa: BLE001  # whoever waits must hear of it, whatever it is
                    fault = raised
            self._listen(group_of(entries, time.perf_counter() - start, is_stored=fault is None))
            answer(group, fault)

    def _has_queued(self) -> bool:
        """Wait for something to write; there is none when the collector has stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed)
            return bool(self._queue)

    def _next_group(self) -> list[Waiting]:
        with self._changed:
            group, self._queue, self._queued_bytes = self._queue, [], 0
        return group


def _stopping() -> OverloadedError:
    return OverloadedError("The collector is stopping.", hint="Send the event again, in a moment.")
