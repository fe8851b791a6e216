"""Appends staged segments to the log: directly, or through the process that holds the log."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from clew.collector.file_import import adopt_published
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position
from clew.eventlog.staging import delete_unpublished, publish_segments
from clew.eventlog.writer import LogLockedError, LogWriter
from clew.pipeline.checkpoint import Checkpoint, open_log
from clew.pipeline.locks import PIPELINE_LOCK, read_lock_holder

_POLL_SECONDS = 0.05
# The holder of the log looks for segments every half second.
_STALLED_SECONDS = 30.0
# A running pipeline is not further behind: live events wait in the same log.
_MAX_LAG_BYTES = 256 << 20


class LogHandover:
    """Appends staged segments. Use as a context manager: it holds the log's lock, unless a collector does."""

    def __init__(self, home: DataDir) -> None:
        self._home = home
        self._log: LogWriter | None = None
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        self._home.create()
        delete_unpublished(self._home.log)
        self._try_open()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    @property
    def is_direct(self) -> bool:
        """True if this process holds the log."""
        return self._log is not None

    def append(self, paths: Iterable[Path]) -> None:
        """Append segments and wait until they are part of the log."""
        published = publish_segments(paths)
        if self._log is not None:
            adopt_published(self._log)
            return
        self._wait_for_adoption(published)
        self._wait_for_pipeline()

    def _try_open(self) -> None:
        try:
            self._log = self._resources.enter_context(open_log(self._home))
        except LogLockedError:
            return
        # Of an import whose collector has stopped.
        adopt_published(self._log)

    def _wait_for_adoption(self, published: list[Path]) -> None:
        progress_at, waiting = time.monotonic(), len(published)
        while remaining := sum(path.exists() for path in published):
            if remaining < waiting:
                progress_at, waiting = time.monotonic(), remaining
            if time.monotonic() - progress_at > _POLL_SECONDS * 20:
                # The collector may have stopped.
                self._try_open()
            if time.monotonic() - progress_at > _STALLED_SECONDS:
                message = f"The process that holds the log {self._home.log} does not append the imported events."
                hint = "Restart it with this version of clew, or stop it; then run the import again: it continues."
                raise ClewError(message, hint=hint)
            time.sleep(_POLL_SECONDS)

    def _wait_for_pipeline(self) -> None:
        checkpoint = Checkpoint(self._home.checkpoint)
        location = self._home.lake / PIPELINE_LOCK
        while end_position(self._home.log) - checkpoint.committed_offset > _MAX_LAG_BYTES:
            if read_lock_holder(location) is None:
                return
            time.sleep(10 * _POLL_SECONDS)
