"""Completing the streams of a folder from the logs beside them, by whoever comes first, and never twice."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from clew.capture.losses import count_loss
from clew.capture.streams.entries import decode_entry
from clew.capture.streams.expansion import Expansion
from clew.capture.streams.files import CLOSED, StreamFiles
from clew.capture.streams.log import FOLDER, folders_with_logs, is_abandoned, logs_in

_BYTES_PER_COMMIT = 4 << 20


class Completion:
    """Expands the logs of one folder, again and again; what it has read stays known to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._logs: dict[Path, _Log] = {}

    def go_on(self) -> None:
        """Expand what kernels have written since the last time; the logs of those that ended are removed."""
        if not any(path not in self._logs or self._logs[path].has_news() for path in logs_in(self.folder)):
            return
        with _only_one(self.folder):
            files = StreamFiles(self.folder)
            progress = files.progress()
            for path in logs_in(self.folder):
                log = self._logs.setdefault(path, _Log(path))
                for position in log.expand(files, progress.logs.get(path.name, 0)):
                    progress.logs[path.name] = position
                    files.commit(progress.logs)
                if log.is_complete:
                    path.unlink()
                    del self._logs[path]
            self._clear()

    def _clear(self) -> None:
        """Remove what was needed for the work once nothing is left to do."""
        if logs_in(self.folder):
            return
        for path in (self.folder / FOLDER).glob("progress.*"):
            path.unlink()
        with suppress(OSError):
            # A session that has just begun keeps it.
            (self.folder / FOLDER).rmdir()


class _Log:
    """One log and how far it was read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._expansion = Expansion()
        self._position = 0
        self.is_complete = False

    def has_news(self) -> bool:
        """Whether there is more of it, or there will be no more."""
        return self._path.stat().st_size > self._position or is_abandoned(self._path)

    def expand(self, files: StreamFiles, done: int) -> Iterator[int]:
        """Add the events of what was written since, less those of the first `done` bytes, and say how far it went."""
        if done == CLOSED:
            self.is_complete = True
            return
        # Asked first: what a kernel wrote before it was gone can then be read to the end.
        is_last = is_abandoned(self._path)
        told = 0
        with self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._add(line, files if self._position >= done else None)
                self._position += len(line)
                told += len(line)
                if told >= _BYTES_PER_COMMIT and self._position > done:
                    yield self._position
                    told = 0
        if is_last and self._position:
            for stream, event in self._expansion.end():
                files.add(stream, event)
            self.is_complete = True
            yield CLOSED
        elif self._position > done:
            yield self._position

    def _add(self, line: bytes, files: StreamFiles | None) -> None:
        try:
            entry = decode_entry(line)
        except msgspec.DecodeError:
            # Cut short by a full disk, and counted as lost where that happened.
            return
        try:
            for stream, event in self._expansion.events(entry):
                if files is not None:
                    files.add(stream, event)
        except Exception as error:  # noqa: BLE001 - one entry that cannot be told must not cost the others
            count_loss("expand", error)


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def complete(folder: Path) -> None:
    """Complete the streams of one folder."""
    Completion(folder).go_on()


def complete_below(root: Path) -> None:
    """Complete the streams of the sessions below `root` whose kernels are gone; the others have their workers."""
    for folder in folders_with_logs(root):
        if any(map(is_abandoned, logs_in(folder))):
            complete(folder)
