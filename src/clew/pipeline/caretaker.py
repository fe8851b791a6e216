"""Upkeep beside a stream: merges small files, refreshes derived tables now and then, removes what nobody needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread
from types import TracebackType
from typing import Self

from msgspec import Struct

from clew.home import LakePlace
from clew.lake.delta import Lake
from clew.lake.tables import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES, EVENT_TABLES, Table
from clew.lake.upkeep import TARGET_BYTES, merge_table, remove_files
from clew.pipeline.saying import Say

_HOUR = 3600.0
# A refresh reads the whole lake: it may take this share of the time and no more, however large the lake becomes.
_SHARE_OF_REFRESH = 0.05


class Care(Struct, frozen=True):
    """When something is to be done."""

    new_files: int = 64
    look_seconds: float = 10.0
    refresh_seconds: float = 300.0
    removal_seconds: float = _HOUR
    pause_after_fault_seconds: float = 300.0
    retention_hours: int = 7 * 24
    # A refresh writes derived tables whole: copies of a week would be many, and nobody asks for an older one.
    derived_retention_hours: int = 2
    target_bytes: int = TARGET_BYTES
    # Of the log, what was taken in longer ago than this is removed; nothing, if it is not given.
    keep_log: timedelta | None = None


class Cared(Struct):
    """What was done so far."""

    merges: int = 0
    refreshes: int = 0
    removals: int = 0
    faults: int = 0


class Caretaker:
    """Two threads, each with a lake of its own: `with Caretaker(…):`. A fault is said and never leaves them.

    Two, because files must be merged while derived tables are being refreshed, which may take minutes.
    """

    def __init__(
        self,
        root: LakePlace,
        refresh: Callable[[Lake], bool],
        say: Say,
        care: Care,
        done: Cared | None = None,
        drop_log: Callable[[timedelta], object] = lambda _: None,
    ) -> None:
        self.done = done or Cared()
        self._files, self._derived = Lake(root), Lake(root)
        self._refresh = refresh
        self._drop_log = drop_log
        self._say = say
        self._care = care
        self._stop = Event()
        self._threads = [
            Thread(target=self._run, args=(look,), name=f"clew-{look.__name__}", daemon=True)
            for look in (self.tidy, self.bring_up_to_date)
        ]
        self._files_after_merge: dict[str, int] = {}
        self._next_refresh = time.monotonic() + care.refresh_seconds
        self._next_removal = time.monotonic() + care.removal_seconds

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def tidy(self) -> None:
        """Merge files where many are new, and remove old ones, if that is due."""
        for table in EVENT_TABLES:
            if not self._stop.is_set():
                self._merge(table)
        if time.monotonic() >= self._next_removal and not self._stop.is_set():
            self._remove()

    def bring_up_to_date(self) -> None:
        """Refresh derived tables, if that is due."""
        started = time.monotonic()
        if started >= self._next_refresh:
            self.done.refreshes += self._refresh(self._derived)
            ended = time.monotonic()
            self._next_refresh = ended + max(self._care.refresh_seconds, (ended - started) / _SHARE_OF_REFRESH)

    def _run(self, look: Callable[[], None]) -> None:
        pause = self._care.look_seconds
        while not self._stop.wait(pause):
            try:
                look()
                pause = self._care.look_seconds
            except Exception as fault:  # noqa: BLE001  # whatever upkeep cannot do, the stream goes on
                self.done.faults += 1
                pause = max(self._care.look_seconds, self._care.pause_after_fault_seconds)
                self._say(f"Upkeep failed, events are taken in all the same: {fault}")

    def _merge(self, table: Table) -> None:
        new = len(self._files.files(table.name)) - self._files_after_merge.get(table.name, 0)
        if new >= self._care.new_files:
            _, after = merge_table(self._files, table, self._care.target_bytes, is_gradual=True)
            self._files_after_merge[table.name] = after
            self.done.merges += 1

    def _remove(self) -> None:
        remove_files(self._files, self._care.retention_hours, EVENT_TABLE_NAMES)
        remove_files(self._files, self._care.derived_retention_hours, DERIVED_TABLE_NAMES)
        if self._care.keep_log is not None:
            self._drop_log(self._care.keep_log)
        self.done.removals += 1
        self._next_removal = time.monotonic() + self._care.removal_seconds
