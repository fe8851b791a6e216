"""Flush thread: writes the operations of running cells every second, so that a kill loses little."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from clew.capture.losses import record_error

if TYPE_CHECKING:
    from clew.capture.sessions import Execution

_INTERVAL_SECONDS = 1.0
_running: set[Execution] = set()
_threads: list[threading.Thread] = []


def register(execution: Execution) -> None:
    """Add an execution to the periodic flush; starts the thread if needed."""
    _running.add(execution)
    if not _threads:
        thread = threading.Thread(target=_run, name="clew-ticker", daemon=True)
        _threads.append(thread)
        # Without threads, operations are written at the end of their cell.
        with contextlib.suppress(RuntimeError):
            thread.start()


def unregister(execution: Execution) -> None:
    """Remove an ended execution, which writes the rest itself."""
    _running.discard(execution)


def _run() -> None:
    while True:
        time.sleep(_INTERVAL_SECONDS)
        for execution in tuple(_running):
            try:
                execution.session.recorder.execution_progressed(execution)
            except Exception as error:  # noqa: BLE001 - retried at the next interval
                record_error("cell", error)
