"""Sessions (a notebook run) and executions (a cell run)."""

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
from typing import TYPE_CHECKING, Any, NamedTuple

from clew.capture.introspection.source_map import SourceMap

if TYPE_CHECKING:
    from types import CodeType

    from clew.capture.emit.files import CellFailure
    from clew.capture.lineage.frame_version import FrameVersion
    from clew.capture.lineage.operations import OperationRecord


# Records are flushed in batches of this size, which halves the cost per record. Larger batches would trigger Python's
# garbage collector repeatedly.
_MAX_QUEUED_RECORDS = 16
_FIXED_BITS = (0xF << 76) | (0x3 << 62)
_VERSION_4 = (0x4 << 76) | (0x2 << 62)
# A separate generator: the user's random.seed() must neither be disturbed nor make ids repeat.
_random = random.Random()  # noqa: S311 - ids, not secrets
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_random.seed)


# Name of a notebook without a file.
_DEFAULT_NAME = "notebook"


# Held while records are flushed or written, by the notebook's thread or the flush thread.
records_lock = threading.RLock()


def _reset_lock() -> None:
    # In a forked child the thread that held the lock does not exist.
    global records_lock  # noqa: PLW0603 - a lock cannot be released from another thread
    records_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_lock)


def new_run_id() -> str:
    """Return a random UUID (version 4), 6x faster than uuid.uuid4 because it makes no system call."""
    digits = f"{(_random.getrandbits(128) & ~_FIXED_BITS) | _VERSION_4:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


_REPOSITORY_MARKERS = (".git", ".hg", ".svn", ".jj")
_PROJECT_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "environment.yml", "Pipfile")


def notebook_name(path: Path | None) -> str:
    """Return the name of a notebook: its path from the project's folder, or from the home directory without a project.

    The project is the nearest repository, else the nearest folder with a project file; its own name is included. The
    name does not depend on the working directory, unless the notebook has no file. `CLEW_PROJECT` overrides the folder.
    """
    path = path if path is not None else Path(_DEFAULT_NAME)
    # A notebook may be reached through a link to its folder; its own name is the one the user gave.
    folder = path.parent.resolve()
    # Not Path.home, which fails for a user without an entry, such as one of a container.
    home = Path(os.path.expanduser("~")).resolve()  # noqa: PTH111
    folders = [folder, *folder.parents]
    project = os.environ.get("CLEW_PROJECT")
    if project and Path(project).resolve() in folders:
        return (folder / path.name).relative_to(Path(project).resolve()).as_posix()
    inside_home = folders[: folders.index(home)] if home in folders else folders[:-1]
    for markers in (_REPOSITORY_MARKERS, _PROJECT_MARKERS):
        for candidate in inside_home:
            if any((candidate / marker).exists() for marker in markers):
                return (folder / path.name).relative_to(candidate.parent).as_posix()
    return (folder / path.name).relative_to(home if home in folders else folder.anchor).as_posix()


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook."""

    id: str
    source: str
    name: str | None = None
    index: int | None = None
    defines: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """Name in jobs: the function's name if it has one, else the id."""
        return self.name or self.id


class LossReport(NamedTuple):
    """Something that capture could not follow, as reported in events; `cell` is None outside of cells."""

    operation: str
    error_type: str
    times: int
    cell: str | None
    line: int | None
    code: str


class Recorder:
    """Recorder of a session's executions; this base class ignores everything."""

    def execution_started(self, execution: Execution) -> None:
        """Record the start of a cell."""

    def setup_cell_found(self, session: Session, file: str, text: str, lines: tuple[int, int]) -> None:
        """Record that a line range of a file (first, last) is the setup cell."""

    def execution_progressed(self, execution: Execution, thread: int | None = None) -> None:
        """Record the progress of a cell that runs in `thread`; called from another thread."""

    def execution_ended(self, execution: Execution, namespace: dict[str, Any]) -> None:
        """Record the end of a cell, successful or not; `namespace` holds its variables."""

    def session_ended(self, session: Session) -> None:
        """Record the end of the session."""


@dataclass(eq=False)
class Session:
    """One run of one notebook or script."""

    notebook: str
    session_id: str = ""
    run_id: str = ""
    path: Path | None = None
    # A script has a single execution.
    is_script: bool = False
    executions: int = 0
    failures: int = 0
    is_ended: bool = False
    recorder: Recorder = field(default_factory=Recorder)
    has_pending: bool = False
    sources: SourceMap = field(default_factory=SourceMap)
    # Used when events are written.
    losses: list[LossReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Set by a launcher that needs to know the output folder; used for one session only.
        self.session_id = self.session_id or os.environ.pop("CLEW_SESSION_ID", "") or new_run_id()[:8]
        self.run_id = self.run_id or self.session_id + new_run_id()[8:]

    @property
    def stem(self) -> str:
        """Name of the notebook in jobs and datasets."""
        return self.notebook.removesuffix(".py").removesuffix(".ipynb")

    def end(self) -> None:
        """End the session once."""
        if not self.is_ended:
            self.is_ended = True
            self.recorder.session_ended(self)


@dataclass(eq=False, slots=True)
class Repetition:
    """Accesses of one statement to single elements of one frame or Series; after some, they are only counted."""

    # Held, because the location has only its id.
    code: CodeType
    # Lineage state of the frame or Series.
    state: Any
    # Number of traced accesses by label.
    traced: dict[Any, int] = field(default_factory=dict)
    # Accesses that are not in the count of the record yet.
    uncounted: int = 0


@dataclass(eq=False)
class Execution:
    """One execution of one cell: ids, times and operation records."""

    session: Session
    cell: Cell
    code: CodeType | None = None
    run_id: str = field(default_factory=new_run_id)
    # Records as they arrive, and after loop folding, in output order.
    queue: deque[OperationRecord] = field(default_factory=deque)
    records: list[OperationRecord] = field(default_factory=list)
    started_at: float = field(default_factory=time.time)
    clock: float = field(default_factory=time.perf_counter)
    duration: float = 0.0
    start_memory_mb: float = 0.0
    end_memory_mb: float = 0.0
    error: BaseException | None = None
    is_stopped: bool = False
    # Used when events are written: the error, and the time at which the kernel logged the execution.
    failure: CellFailure | None = None
    emitted_at: float = 0.0
    losses: list[LossReport] = field(default_factory=list)
    by_location: dict[tuple[int, int], list[OperationRecord]] = field(default_factory=dict)
    # Repeated accesses to single elements, by location.
    repetitions: dict[tuple[int, int], Repetition] = field(default_factory=dict)
    # Records already written to the log, with their count at that time.
    logged: list[tuple[OperationRecord, int]] = field(default_factory=list)
    encoded_count: int = 0
    is_ended: bool = False
    # Metrics of frames that were read from files or written to them, and the time spent on them.
    metrics: dict[FrameVersion, dict[str, Any]] = field(default_factory=dict)
    metrics_seconds: float = 0.0
    # Names of charts and models by the location of their code.
    consumers: dict[tuple[int, int], str] = field(default_factory=dict)

    @property
    def execution_id(self) -> str:
        """First eight digits of the run id, for display."""
        return self.run_id[:8]

    def wall_time(self, clock: float) -> float:
        """Convert a value of the performance counter to wall time."""
        return self.started_at + (clock - self.clock)

    def add(self, record: OperationRecord) -> None:
        """Queue a record."""
        # Flushed before it is appended: its creator may still change it.
        if len(self.queue) >= _MAX_QUEUED_RECORDS:
            with records_lock:
                self.flush()
        self.queue.append(record)

    def flush(self, until: float = math.inf) -> None:
        """Move queued records to `records`, after the library records they depend on; loop repetitions are merged."""
        queue = self.queue
        while queue and queue[0].started + queue[0].duration < until:
            record = queue.popleft()
            # Keyed by id(code), since hashing code hashes all of its constants; the records hold the code.
            location = (id(record.code), record.instruction)
            earlier_records = self.by_location.get(location)
            if earlier_records is None:
                self.by_location[location] = [record]
            elif self._is_repeat(earlier_records, record):
                continue
            if self.session.has_pending and record.output is not None:
                self.records.extend(_pending_producers(record))
            self.records.append(record)
        for location, repetition in list(self.repetitions.items()):
            records = self.by_location.get(location)
            if records and repetition.uncounted:
                records[-1].count += repetition.uncounted
                repetition.uncounted = 0

    def _is_repeat(self, earlier: list[OperationRecord], record: OperationRecord) -> bool:
        signature = record.loop_signature()
        for earlier_record in earlier:
            if earlier_record.loop_signature() == signature:
                earlier_record.merge_iteration(record)
                return True
        earlier.append(record)
        return False


def _pending_producers(record: OperationRecord) -> list[OperationRecord]:
    """Return the library records whose output has now reached user code, oldest first."""
    producers: list[OperationRecord] = []
    queue = [record]
    while queue:
        for version in queue.pop().inputs():
            producer = version.made_by
            if producer is not None and producer.is_pending:
                producer.is_pending = False
                producers.append(producer)
                queue.append(producer)
    return producers[::-1]


_current: ContextVar[Execution | None] = ContextVar("clew_execution", default=None)


# Returns the current execution, if any; bound directly, since every operation calls it.
current_execution = _current.get


def enter_execution(execution: Execution) -> Any:
    """Make `execution` the current one and return a token for `leave_execution`."""
    return _current.set(execution)


def leave_execution(token: Any) -> None:
    """Restore the previous execution."""
    # IPython signals the end of an async cell outside of its task, where the token is not valid.
    with suppress(ValueError):
        _current.reset(token)
