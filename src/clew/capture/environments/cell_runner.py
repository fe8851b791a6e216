"""Sessions and the execution context of a cell, shared by all adapters."""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.util import Finalize
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.capture.diagnostics import memory_mb, recent_memory_mb, record_error
from clew.capture.emit import recorder
from clew.capture.emit.files import KernelLog, streams_folder
from clew.capture.emit.recorder import KernelLogRecorder
from clew.capture.emit.worker import Worker
from clew.capture.environments.session import (
    Cell,
    Execution,
    Session,
    current_execution,
    enter_execution,
    leave_execution,
    notebook_name,
)
from clew.capture.introspection.read_tracking import clear_reads

if TYPE_CHECKING:
    from types import CodeType

_open: list[tuple[int, Session]] = []


def open_session(path: str | None) -> Session:
    """Open a session for the notebook or script at `path`; it ends with its kernel or the process."""
    notebook = Path(path) if path else None
    session = Session(notebook_name(notebook), path=notebook)
    log = KernelLog(streams_folder(session.session_id), session.session_id)
    session.recorder = KernelLogRecorder(log, Worker(log.path))
    if not _open:
        # Children of multiprocessing, such as kernels of `marimo edit`, run its finalizers instead of atexit.
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
    own_sessions = [entry for entry in _open if entry[0] == threading.get_ident()]
    for entry in own_sessions:
        entry[1].end()
        _open.remove(entry)


@contextmanager
def execution_context(
    session: Session, cell: Cell, code: CodeType | None, namespace: dict[str, Any]
) -> Iterator[Execution]:
    """Record everything inside as one execution of `cell`; the caller sets its error."""
    execution = Execution(session, cell, code)
    execution.start_memory_mb = recent_memory_mb()
    _call_safely("cell start", session.recorder.execution_started, execution)
    if current_execution() is None:
        clear_reads()
    token = enter_execution(execution)
    execution.clock = time.perf_counter()
    recorder.register(execution)
    try:
        yield execution
    finally:
        execution.duration = time.perf_counter() - execution.clock
        recorder.unregister(execution)
        leave_execution(token)
        execution.end_memory_mb = memory_mb()
        _call_safely("cell end", session.recorder.execution_ended, execution, namespace)


def _call_safely(where: str, action: Any, *arguments: Any) -> None:
    try:
        action(*arguments)
    except Exception as error:  # noqa: BLE001 - the notebook must continue if recording fails
        record_error(where, error)
