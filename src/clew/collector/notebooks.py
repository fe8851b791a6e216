"""What notebooks write is taken beside what comes over HTTP: the log has one writer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.collector.appender import Appender
from clew.collector.intake import take_streams
from clew.errors import ClewError

_LOG = logging.getLogger(__name__)
_SECONDS_BETWEEN = 0.5


@contextmanager
def taking_streams(folder: Path, appender: Appender, complete: Callable[[Path], None]) -> Iterator[None]:
    """As long as this lasts, append what notebook sessions write; `complete` sees to those that were killed."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(_SECONDS_BETWEEN):
            try:
                complete(folder)
                take_streams(folder, appender)
            except (ClewError, OSError) as fault:
                # It is tried again, from where it stopped.
                _LOG.warning("notebooks wait: %s", fault)

    thread = threading.Thread(target=work, name="clew-notebooks")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
