"""What every adapter does around a cell."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.capture.losses import count_loss
from clew.capture.memory import memory_mb, recent_memory_mb
from clew.capture.sessions import Cell, Execution, Session, current_execution, enter, leave
from clew.capture.statements import forget_reads
from clew.capture.streams import ticker
from clew.capture.streams.files import streams_folder
from clew.capture.streams.log import KernelLog
from clew.capture.streams.sink import LogSink
from clew.capture.streams.worker import Worker

if TYPE_CHECKING:
    from types import CodeType

_open: list[tuple[int, Session]] = []


def open_session(path: str | None) -> Session:
    """A session for the notebook or script at `path`, ended when its kernel or the process does."""
    notebook = Path(path) if path else None
    session = Session(notebook.name if notebook is not None else "notebook", path=notebook)
    log = KernelLog(streams_folder(session.session_id), session.session_id)
    session.sink = LogSink(log, Worker(log.path))
    if not _open:
        # Children of multiprocessing run its finalizers, not atexit; a kernel is such a child in `marimo edit`.
        Finalize(None, end_sessions, exitpriority=0)
        atexit.register(end_sessions)
    _open.append((threading.get_ident(), session))
    return session


def end_sessions() -> None:
    """End every session that is still open."""
    while _open:
        _open.pop()[1].end()


def end_sessions_of_thread() -> None:
    """End the sessions of this thread's kernel: `marimo run` has one thread per visitor."""
    mine = [entry for entry in _open if entry[0] == threading.get_ident()]
    for entry in mine:
        entry[1].end()
        _open.remove(entry)


@contextmanager
def running(session: Session, cell: Cell, code: CodeType | None, namespace: dict[str, Any]) -> Iterator[Execution]:
    """Everything inside belongs to one execution of `cell`; the block decides whether it failed."""
    execution = Execution(session, cell, code)
    execution.start_memory_mb = recent_memory_mb()
    _guarded("cell start", session.sink.execution_started, execution)
    if current_execution() is None:
        forget_reads()
    token = enter(execution)
    execution.clock = time.perf_counter()
    ticker.watch(execution)
    try:
        yield execution
    finally:
        execution.duration = time.perf_counter() - execution.clock
        ticker.leave(execution)
        leave(token)
        execution.end_memory_mb = memory_mb()
        _guarded("cell end", session.sink.execution_ended, execution, namespace)


def _guarded(where: str, action: Any, *arguments: Any) -> None:
    try:
        action(*arguments)
    except Exception as error:  # noqa: BLE001 - the notebook must run on whatever happens to its events
        count_loss(where, error)
