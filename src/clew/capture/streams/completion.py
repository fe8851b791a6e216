"""Expansion of the kernel logs of a folder to event files, exactly once, by any process."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from clew.capture.losses import record_error
from clew.capture.streams.entries import decode_entry
from clew.capture.streams.expansion import EventExpander
from clew.capture.streams.files import CLOSED, StreamFiles
from clew.capture.streams.log import STATE_FOLDER, folders_with_logs, is_abandoned, logs_in

_BYTES_PER_COMMIT = 4 << 20


class LogExpander:
    """Expands the logs of one folder incrementally."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cursors: dict[Path, _LogCursor] = {}

    def poll(self) -> None:
        """Expand new log entries; remove the logs of kernels that have exited."""
        if not any(path not in self._cursors or self._cursors[path].has_changes() for path in logs_in(self.folder)):
            return
        with _folder_lock(self.folder):
            files = StreamFiles(self.folder)
            progress = files.progress()
            for path in logs_in(self.folder):
                cursor = self._cursors.setdefault(path, _LogCursor(path))
                for position in cursor.expand(files, progress.logs.get(path.name, 0)):
                    progress.logs[path.name] = position
                    files.commit(progress.logs)
                if cursor.is_complete:
                    path.unlink()
                    del self._cursors[path]
            self._remove_work_files()

    def _remove_work_files(self) -> None:
        """Remove the progress file once all logs are expanded."""
        if logs_in(self.folder):
            return
        for path in (self.folder / STATE_FOLDER).glob("progress.*"):
            path.unlink()
        with suppress(OSError):
            # Not empty: a session has just started.
            (self.folder / STATE_FOLDER).rmdir()


class _LogCursor:
    """Read position in one log, with its expander."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._expander = EventExpander()
        self._position = 0
        self.is_complete = False

    def has_changes(self) -> bool:
        """Return whether the log has grown or its kernel has exited."""
        return self._path.stat().st_size > self._position or is_abandoned(self._path)

    def expand(self, files: StreamFiles, done: int) -> Iterator[int]:
        """Add the events after the first `done` bytes and yield the position after each batch to commit."""
        if done == CLOSED:
            self.is_complete = True
            return
        # Checked before reading, so that everything a dead kernel wrote is read.
        is_last = is_abandoned(self._path)
        uncommitted_bytes = 0
        with self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._add(line, files if self._position >= done else None)
                self._position += len(line)
                uncommitted_bytes += len(line)
                if uncommitted_bytes >= _BYTES_PER_COMMIT and self._position > done:
                    yield self._position
                    uncommitted_bytes = 0
        if is_last and self._position:
            for stream, event in self._expander.close():
                files.add(stream, event)
            self.is_complete = True
            yield CLOSED
        elif self._position > done:
            yield self._position

    def _add(self, line: bytes, files: StreamFiles | None) -> None:
        try:
            entry = decode_entry(line)
        except msgspec.DecodeError:
            # Cut off by a full disk, and counted as an error by the kernel.
            return
        try:
            for stream, event in self._expander.events(entry):
                if files is not None:
                    files.add(stream, event)
        except Exception as error:  # noqa: BLE001 - one bad entry must not affect the others
            record_error("expand", error)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def expand_logs(folder: Path) -> None:
    """Expand the logs of one folder."""
    LogExpander(folder).poll()


def expand_abandoned(root: Path) -> None:
    """Expand the logs of exited kernels below `root`; the others have their workers."""
    for folder in folders_with_logs(root):
        if any(map(is_abandoned, logs_in(folder))):
            expand_logs(folder)
