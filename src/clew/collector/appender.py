"""Group commit: whatever has queued up is written and synced at once, then all who wait for it are answered."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from clew.collector.log import Entry, LogWriter, Received
from clew.collector.patience import OverloadedError, Patience, Then

# Some seconds of work for the slowest disk: who comes later is told to come back rather than kept waiting.
_MOST_WAITING_BYTES = 64 << 20


class Group(Struct, frozen=True):
    """What was written at once, and how long that took; `is_stored` tells whether it is on disk."""

    events: int
    bytes: int
    seconds: float
    is_stored: bool


class _Waiting(Struct, frozen=True):
    entries: Sequence[Entry]
    held_bytes: int
    # For a thread that waits, or for a loop that goes on meanwhile.
    stored: Future[None] | Patience


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
        # What has come in this turn of a loop, which is handed over as a whole, and who waits for it.
        self._arriving: list[Entry] = []
        self._arriving_bytes = 0
        self._patience: Patience | None = None
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
        return self._queued_bytes + self._arriving_bytes

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
        stored, size = Future[None](), _held_bytes(entries)
        self._require_room(size)
        self._enqueue(_Waiting(entries, size, stored))
        return stored

    def store_meanwhile(self, entries: Sequence[Entry], then: Then) -> None:
        """The same for a running loop, the only one that calls this: `then` is called on it.

        To wake a thread, and a loop, costs more than to store an event: each is woken once for many.
        """
        size = _held_bytes(entries)
        self._require_room(size)
        if self._patience is None:
            loop = asyncio.get_running_loop()
            self._patience = Patience(loop)
            loop.call_soon(self._hand_over, self._patience)
        self._patience.add(then)
        self._arriving += entries
        self._arriving_bytes += size

    def _hand_over(self, patience: Patience) -> None:
        arrived = _Waiting(self._arriving, self._arriving_bytes, patience)
        self._arriving, self._arriving_bytes, self._patience = [], 0, None
        try:
            self._enqueue(arrived)
        except OverloadedError as fault:
            patience.end(fault)
        else:
            patience.begin()

    def _enqueue(self, arrived: _Waiting) -> None:
        with self._changed:
            if self._is_closed:
                raise _stopping()
            self._queue.append(arrived)
            self._queued_bytes += arrived.held_bytes
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
        while group := self._next_group():
            start, fault = time.perf_counter(), None
            try:
                self._log.append_entries(chain.from_iterable(waiting.entries for waiting in group))
            except Exception as raised:  # noqa: BLE001  # whoever waits must hear of it, whatever it is
                fault = raised
            sizes = [len(entry.body) for one in group for entry in one.entries]
            self._listen(Group(len(sizes), sum(sizes), time.perf_counter() - start, is_stored=fault is None))
            _answer(group, fault)

    def _next_group(self) -> list[_Waiting]:
        """All that has queued up; nothing when the collector has stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed)
            group, self._queue, self._queued_bytes = self._queue, [], 0
        return group


def _stopping() -> OverloadedError:
    return OverloadedError("The collector is stopping.", hint="Send the event again, in a moment.")


def _held_bytes(entries: Sequence[Entry]) -> int:
    """What entries take of the memory: a large one is a view of its file, and only one of those comes at a time."""
    return sum([len(entry.body) for entry in entries if isinstance(entry.body, bytes)])


def _answer(group: Sequence[_Waiting], fault: Exception | None) -> None:
    waiting: dict[asyncio.AbstractEventLoop, list[Patience]] = {}
    for one in group:
        if isinstance(one.stored, Patience):
            waiting.setdefault(one.stored.loop, []).append(one.stored)
        elif fault is None:
            one.stored.set_result(None)
        else:
            one.stored.set_exception(fault)
    for loop, patiences in waiting.items():
        # A loop is woken once, not once for each.
        loop.call_soon_threadsafe(_end_all, patiences, fault)


def _end_all(patiences: Sequence[Patience], fault: Exception | None) -> None:
    for patience in patiences:
        patience.end(fault)
