"""Sessions and executions: which notebook is running, and which cell of it."""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from clew.capture.sources import SourceMap

if TYPE_CHECKING:
    from types import CodeType

    from clew.capture.records import Record
    from clew.capture.streams.entries import Failure
    from clew.capture.versions import FrameVersion


# So many operations are looked through at once: together they cost half of what each would cost in its place. Were
# they more, what they hold until then would set off Python's collector again and again.
_RECORDS_WAITING = 16
_FIXED_BITS = (0xF << 76) | (0x3 << 62)
_VERSION_4 = (0x4 << 76) | (0x2 << 62)
# Its own generator: the user's random.seed() must neither be disturbed nor make ids repeat.
_random = random.Random()  # noqa: S311 - ids, not secrets
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


# Held by whoever settles or writes records: the notebook's thread, or the one that writes while a cell runs.
settling = threading.RLock()


def _settle_anew() -> None:
    # In a forked child the thread that may hold it does not exist.
    global settling  # noqa: PLW0603 - a lock cannot be taken from another thread
    settling = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_settle_anew)


def new_run_id() -> str:
    """A random UUID (version 4), 6x faster than uuid.uuid4 because it does not ask the kernel each time."""
    digits = f"{(_random.getrandbits(128) & ~_FIXED_BITS) | _VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell as the notebook defines it."""

    id: str
    source: str
    name: str | None = None
    index: int | None = None
    defines: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """Its name in jobs: the function's name if it has one."""
        return self.name or self.id


class Sink(Protocol):
    """Where a session's executions go."""

    def execution_started(self, execution: Execution) -> None:
        """A cell starts."""

    def part_found(self, session: Session, file: str, text: str, lines: tuple[int, int]) -> None:
        """Lines of a file, from the first to the last, are a cell of their own."""

    def execution_goes_on(self, execution: Execution) -> None:
        """A cell has been running for a while; called from another thread."""

    def execution_ended(self, execution: Execution, namespace: dict[str, Any]) -> None:
        """A cell ended, in whatever way; `namespace` holds the variables it left."""

    def session_ended(self, session: Session) -> None:
        """Nothing more comes."""


class Silence:
    """Takes everything and writes nothing."""

    def execution_started(self, execution: Execution) -> None:
        """Ignore it."""

    def part_found(self, session: Session, file: str, text: str, lines: tuple[int, int]) -> None:
        """Ignore it."""

    def execution_goes_on(self, execution: Execution) -> None:
        """Ignore it."""

    def execution_ended(self, execution: Execution, namespace: dict[str, Any]) -> None:
        """Ignore it."""

    def session_ended(self, session: Session) -> None:
        """Ignore it."""


@dataclass(eq=False)
class Session:
    """One run of one notebook or script."""

    notebook: str
    session_id: str = ""
    run_id: str = ""
    path: Path | None = None
    # One execution and no more.
    is_script: bool = False
    executions: int = 0
    failures: int = 0
    is_ended: bool = False
    sink: Sink = field(default_factory=Silence)
    has_pending: bool = False
    sources: SourceMap = field(default_factory=SourceMap)

    def __post_init__(self) -> None:
        # Given by a launcher that wants to know where the streams will be; good for one session only.
        self.session_id = self.session_id or os.environ.pop("CLEW_SESSION_ID", "") or new_run_id()[:8]
        self.run_id = self.run_id or self.session_id + new_run_id()[8:]

    @property
    def stem(self) -> str:
        """The notebook's name in jobs and datasets."""
        return self.notebook.removesuffix(".py").removesuffix(".ipynb")

    def end(self) -> None:
        """Write what closes the session, once."""
        if not self.is_ended:
            self.is_ended = True
            self.sink.session_ended(self)


@dataclass(eq=False)
class Execution:
    """One execution of one cell: its identity, its clock, and the records made while it ran."""

    session: Session
    cell: Cell
    code: CodeType | None = None
    run_id: str = field(default_factory=new_run_id)
    # As they come, and as they are told.
    waiting: deque[Record] = field(default_factory=deque)
    records: list[Record] = field(default_factory=list)
    started_at: float = field(default_factory=time.time)
    clock: float = field(default_factory=time.perf_counter)
    duration: float = 0.0
    start_memory_mb: float = 0.0
    end_memory_mb: float = 0.0
    error: BaseException | None = None
    is_stopped: bool = False
    # Where streams are written: what the error says, and when the kernel told of it all.
    failure: Failure | None = None
    told_at: float = 0.0
    by_place: dict[tuple[int, int], list[Record]] = field(default_factory=dict)
    # Records that stand in the log already, with the count that they had then.
    logged: list[tuple[Record, int]] = field(default_factory=list)
    looked_at: int = 0
    is_over: bool = False
    # Of frames that were read from files or written to them, and the time that this took.
    metrics: dict[FrameVersion, dict[str, Any]] = field(default_factory=dict)
    seconds_measuring: float = 0.0

    @property
    def execution_id(self) -> str:
        """Eight digits for people; the full id is the run's."""
        return self.run_id[:8]

    def at(self, clock: float) -> float:
        """The wall time of a reading of the performance counter."""
        return self.started_at + (clock - self.clock)

    def add(self, record: Record) -> None:
        """Keep a record."""
        # Before it is added: who made it may not be done with it.
        if len(self.waiting) >= _RECORDS_WAITING:
            with settling:
                self.settle()
        self.waiting.append(record)

    def settle(self, until: float = math.inf) -> None:
        """Put every record after those of libraries that led to it; a loop's repetitions only count."""
        waiting = self.waiting
        while waiting and waiting[0].started + waiting[0].duration < until:
            record = waiting.popleft()
            # By the code's identity, since hashing it hashes all of its constants; its records keep it alive.
            place = (id(record.code), record.instruction)
            earlier = self.by_place.get(place)
            if earlier is None:
                self.by_place[place] = [record]
            elif self._repeats(earlier, record):
                continue
            if self.session.has_pending and record.output is not None:
                self.records.extend(_pending_before(record))
            self.records.append(record)

    def _repeats(self, earlier: list[Record], record: Record) -> bool:
        shape = record.shape()
        for known in earlier:
            if known.shape() == shape:
                known.absorb(record)
                return True
        earlier.append(record)
        return False


def _pending_before(record: Record) -> list[Record]:
    """Records of library code, oldest first, whose output has now reached the user's code."""
    found: list[Record] = []
    waiting = [record]
    while waiting:
        for version in waiting.pop().inputs():
            maker = version.made_by
            if maker is not None and maker.is_pending:
                maker.is_pending = False
                found.append(maker)
                waiting.append(maker)
    return found[::-1]


_current: ContextVar[Execution | None] = ContextVar("clew_execution", default=None)


# The execution that this code belongs to, if any; the method itself, since every operation asks.
current_execution = _current.get


def enter(execution: Execution) -> Any:
    """Make `execution` the current one; `leave` takes the token that this returns."""
    return _current.set(execution)


def leave(token: Any) -> None:
    """Restore what was current before."""
    # IPython tells of the end of an async cell outside of the task it ran in: what was set there is gone with the task.
    with suppress(ValueError):
        _current.reset(token)
