"""Group commit: whatever has queued up is written and synced at once, then all who wait for it are answered."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

from clew.collector.log import Entry, LogWriter, Received
from clew.errors import ClewError

# Some seconds of work for the slowest disk: who comes later is told to come back rather than kept waiting.
_MOST_WAITING_BYTES = 64 << 20


class OverloadedError(ClewError):
    """More is waiting to be stored than can be within the time that a client waits."""


@dataclass(frozen=True)
class Group:
    """What was written at once, and how long that took; `is_stored` tells whether it is on disk."""

    events: int
    bytes: int
    seconds: float
    is_stored: bool


@dataclass(frozen=True)
class _Waiting:
    entries: Sequence[Entry]
    bytes: int
    # Of a thread that waits, or of a loop that goes on meanwhile.
    stored: Future[None] | asyncio.Future[None] = field(default_factory=Future)


class Appender:
    """The one that writes to the log while a collector is at work. Use as a context manager: it drains at the end."""

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
        self._queue: list[_Waiting] = []
        self._queued_bytes = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="clew-appender")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    @property
    def folder(self) -> Path:
        """Where the log is."""
        return self._log.folder

    @property
    def waiting_bytes(self) -> int:
        """How much has queued up."""
        return self._queued_bytes

    def require_ready(self) -> None:
        """OverloadedError if an event that came now would be refused."""
        if self._is_closed or not self._thread.is_alive():
            raise OverloadedError("The collector is stopping.", hint="Send the event again, in a moment.")
        if self._queued_bytes > self._most_waiting_bytes:
            raise self._overload()

    def append(self, events: Iterable[Received]) -> int:
        """Store events, wait until they are on disk, and say how many they were."""
        entries = [Entry.of(event) for event in events]
        self.store(entries).result()
        return len(entries)

    def store(self, entries: Sequence[Entry]) -> Future[None]:
        """Queue entries; what is returned is done when all of them are on disk, and fails if none of them is."""
        stored = Future[None]()
        self._enqueue(_Waiting(entries, _size(entries), stored))
        return stored

    def store_meanwhile(self, entries: Sequence[Entry]) -> asyncio.Future[None]:
        """The same for a loop, which hears of all that were written at once in one go."""
        stored = asyncio.get_running_loop().create_future()
        self._enqueue(_Waiting(entries, _size(entries), stored))
        return stored

    def _enqueue(self, waiting: _Waiting) -> None:
        with self._changed:
            if self._is_closed:
                raise OverloadedError("The collector is stopping.", hint="Send the event again, in a moment.")
            # One is always let in, however large it is.
            if self._queue and self._queued_bytes + waiting.bytes > self._most_waiting_bytes:
                raise self._overload()
            self._queue.append(waiting)
            self._queued_bytes += waiting.bytes
            self._changed.notify()

    def _overload(self) -> OverloadedError:
        message = f"{self._queued_bytes >> 20} MB are waiting to be stored."
        return OverloadedError(message, hint="Send the event again, in a moment.")

    def _work(self) -> None:
        while group := self._next_group():
            start, fault = time.perf_counter(), None
            try:
                self._log.append_entries(chain.from_iterable(waiting.entries for waiting in group))
            except Exception as raised:  # noqa: BLE001  # whoever waits must hear of it, whatever it is
                fault = raised
            events, size = sum(len(one.entries) for one in group), sum(one.bytes for one in group)
            self._listen(Group(events, size, time.perf_counter() - start, is_stored=fault is None))
            _answer(group, fault)

    def _next_group(self) -> list[_Waiting]:
        """All that has queued up; nothing when the collector has stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed)
            group, self._queue, self._queued_bytes = self._queue, [], 0
        return group


def _size(entries: Sequence[Entry]) -> int:
    return sum(len(entry.body) for entry in entries)


def _answer(group: Sequence[_Waiting], fault: Exception | None) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
    for waiting in group:
        if isinstance(waiting.stored, Future):
            _settle([waiting.stored], fault)
        else:
            loops.setdefault(waiting.stored.get_loop(), []).append(waiting.stored)
    for loop, stored in loops.items():
        # A loop is woken once, not once for each.
        loop.call_soon_threadsafe(_settle, stored, fault)


def _settle(stored: Sequence[Future[None] | asyncio.Future[None]], fault: Exception | None) -> None:
    for one in stored:
        # Whoever had no more patience has gone.
        if one.done():
            continue
        if fault is None:
            one.set_result(None)
        else:
            one.set_exception(fault)
