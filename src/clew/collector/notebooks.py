"""Background import of notebook streams. The collector does it because the log has one writer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.collector.appender import Appender
from clew.collector.intake import import_streams
from clew.errors import ClewError

_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.5


@contextmanager
def tail_streams(folder: Path, appender: Appender, expand_abandoned: Callable[[Path], None]) -> Iterator[None]:
    """Append events of notebook sessions in a background thread; `expand_abandoned` completes killed sessions."""
    stop = threading.Event()

    def poll() -> None:
        while not stop.wait(_POLL_SECONDS):
            try:
                expand_abandoned(folder)
                import_streams(folder, appender)
            except (ClewError, OSError) as error:
                # Retried from the same position.
                _LOG.warning("cannot import notebook streams, retrying: %s", error)

    thread = threading.Thread(target=poll, name="clew-notebooks")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
