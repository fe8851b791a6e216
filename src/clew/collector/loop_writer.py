"""Group commit on a loop: it writes what came while another process synced what came before."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from msgspec import Struct

from clew.collector.groups import Group, Waiting, end_all, group_of
from clew.collector.log import Entry, LogWriter, Written
from clew.collector.patience import OverloadedError, Patience, Then
from clew.collector.syncing import Syncer

# A millisecond of a loop's time.
_MOST_BYTES = 1 << 20


class Turn:
    """Says who may write to the log: a thread waits until it may, a loop does not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_wanted = False

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Have it as soon as nobody has; a loop does not get it before."""
        self._is_wanted = True
        with self._lock:
            self._is_wanted = False
            yield

    def take(self) -> bool:
        """Have it now if nobody has or wants it; tells whether that is so."""
        return not self._is_wanted and self._lock.acquire(blocking=False)

    def give_back(self) -> None:
        """Let others have it."""
        self._lock.release()


class _Arrived:
    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.held_bytes = 0
        self.patiences: list[Patience] = []


class _Syncing(Struct, frozen=True):
    arrived: _Arrived
    written: Written
    since: float


class LoopWriter:
    """Stores what one loop brings; what would keep the loop for long is left to others."""

    def __init__(
        self, log: LogWriter, turn: Turn, leave: Callable[[Waiting], None], listen: Callable[[Group], None]
    ) -> None:
        self._log = log
        self._turn = turn
        self._leave = leave
        self._listen = listen
        self._arrived = _Arrived()
        # Of those who came in this turn of the loop.
        self._patience: Patience | None = None
        self._syncer: Syncer | None = None
        self._syncing: _Syncing | None = None

    @property
    def held_bytes(self) -> int:
        """How much waits to be written."""
        return self._arrived.held_bytes

    def store(self, entries: Sequence[Entry], size: int, then: Then) -> None:
        """Have entries written with all others that come in the same turn of the loop, or while another group syncs."""
        if self._patience is None:
            loop = asyncio.get_running_loop()
            self._patience = Patience(loop)
            self._arrived.patiences.append(self._patience)
            loop.call_soon(self._end_turn)
        self._patience.add(then)
        self._arrived.entries += entries
        self._arrived.held_bytes += size

    def drain(self) -> None:
        """Store, or leave to others, all that has come, waiting for it; then nothing more may come."""
        while self._syncing is not None or self._arrived.entries:
            if self._syncing is None:
                self._write_or_leave()
            else:
                self._end_sync()

    def close(self) -> None:
        """End the other process."""
        syncer, self._syncer = self._syncer, None
        if syncer is not None:
            syncer.close()

    def _end_turn(self) -> None:
        self._patience = None
        if self._syncing is None and self._arrived.entries:
            self._write_or_leave()

    def _write_or_leave(self) -> None:
        arrived, self._arrived, self._patience = self._arrived, _Arrived(), None
        syncer = self._syncer_on(arrived.patiences[0].loop)
        if syncer is not None and arrived.held_bytes <= _MOST_BYTES and self._turn.take():
            self._write(arrived, syncer)
            return
        try:
            self._leave(Waiting(arrived.entries, arrived.held_bytes, arrived.patiences))
        except OverloadedError as fault:
            end_all(arrived.patiences, fault)

    def _syncer_on(self, loop: asyncio.AbstractEventLoop) -> Syncer | None:
        if self._syncer is None:
            # A system that starts no more processes has threads, still.
            with suppress(OSError):
                self._syncer = Syncer(loop, self._end_sync)
        return self._syncer

    def _write(self, arrived: _Arrived, syncer: Syncer) -> None:
        since = time.perf_counter()
        try:
            written = self._log.write(arrived.entries)
        except Exception as fault:  # noqa: BLE001  # whoever waits must hear of it, whatever it is
            self._turn.give_back()
            self._tell(arrived, since, fault)
        else:
            self._syncing = _Syncing(arrived, written, since)
            syncer.begin(self._log.file)

    def _end_sync(self) -> None:
        syncing, self._syncing = self._syncing, None
        if syncing is None or self._syncer is None:
            # Nothing was asked: the process is gone. Who comes next starts another.
            self.close()
            return
        fault: Exception | None = None
        try:
            if not self._syncer.end(self._log.file):
                self.close()
            self._log.settle(syncing.written)
        except OSError as raised:
            fault = self._undone(raised)
        self._turn.give_back()
        if self._arrived.entries:
            # The disk has something to do while the others are answered.
            self._write_or_leave()
        self._tell(syncing.arrived, syncing.since, fault)

    def _undone(self, fault: OSError) -> Exception:
        try:
            return self._log.undone(fault)
        except OSError as worse:
            return worse

    def _tell(self, arrived: _Arrived, since: float, fault: Exception | None) -> None:
        self._listen(group_of(arrived.entries, time.perf_counter() - since, is_stored=fault is None))
        end_all(arrived.patiences, fault)
