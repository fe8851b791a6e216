"""Group commit: whatever has queued up is written and synced at once, then all who wait for it are answered."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
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
class _Waiting:
    entries: Sequence[Entry]
    bytes: int
    stored: Future[None] = field(default_factory=Future)


class Appender:
    """The one that writes to the log while a collector is at work. Use as a context manager: it drains at the end."""

    def __init__(self, log: LogWriter, most_waiting_bytes: int = _MOST_WAITING_BYTES) -> None:
        self._log = log
        self._most_waiting_bytes = most_waiting_bytes
        self._changed = threading.Condition()
        self._queue: list[_Waiting] = []
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

    def append(self, events: Iterable[Received]) -> int:
        """Store events, wait until they are on disk, and say how many they were."""
        entries = [Entry.of(event) for event in events]
        self.store(entries).result()
        return len(entries)

    def store(self, entries: Sequence[Entry]) -> Future[None]:
        """Queue entries; what is returned is done when all of them are on disk, and fails if none of them is."""
        waiting = _Waiting(entries, sum(len(entry.body) for entry in entries))
        with self._changed:
            if self._is_closed:
                raise OverloadedError("The collector is stopping.", hint="Send the event again, in a moment.")
            queued = sum(other.bytes for other in self._queue)
            if self._queue and queued + waiting.bytes > self._most_waiting_bytes:
                raise OverloadedError(
                    f"{queued >> 20} MB are waiting to be stored.", hint="Send the event again, in a moment."
                )
            self._queue.append(waiting)
            self._changed.notify()
        return waiting.stored

    def _work(self) -> None:
        while group := self._next_group():
            try:
                self._log.append_entries(chain.from_iterable(waiting.entries for waiting in group))
            except Exception as fault:  # noqa: BLE001  # whoever waits must hear of it, whatever it is
                for waiting in group:
                    waiting.stored.set_exception(fault)
            else:
                for waiting in group:
                    waiting.stored.set_result(None)

    def _next_group(self) -> list[_Waiting]:
        """All that has queued up; nothing when the collector has stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed)
            group, self._queue = self._queue, []
        return group
