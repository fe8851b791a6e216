"""A thread that has the operations of a long cell written while it runs: a kill costs a second of them."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

from clew.capture.losses import count_loss

if TYPE_CHECKING:
    from clew.capture.sessions import Execution

_SECONDS_BETWEEN = 1.0
_running: set[Execution] = set()
_threads: list[threading.Thread] = []


def watch(execution: Execution) -> None:
    """Have what an execution does written from now on."""
    _running.add(execution)
    if not _threads:
        thread = threading.Thread(target=_tick, name="clew-ticker", daemon=True)
        _threads.append(thread)
        # Where there are no threads, operations are written at the end of their cell.
        with contextlib.suppress(RuntimeError):
            thread.start()


def leave(execution: Execution) -> None:
    """It has ended, and writes the rest itself."""
    _running.discard(execution)


def _tick() -> None:
    while True:
        time.sleep(_SECONDS_BETWEEN)
        for execution in tuple(_running):
            try:
                execution.session.sink.execution_goes_on(execution)
            except Exception as error:  # noqa: BLE001 - the next second may do better
                count_loss("cell", error)
