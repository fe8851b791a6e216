"""Kernel log: a write-ahead file per session, deleted once it is expanded to event files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from clew.capture.losses import record_error, warn_once

STATE_FOLDER = ".capture"
_LOG_SUFFIX = ".log"


class KernelLog:
    """Append-only log of one session. Lines are written unbuffered, so they survive a killed kernel.

    A disk error loses events, but never affects the notebook.
    """

    def __init__(self, folder: Path, session_id: str) -> None:
        self.folder = folder
        self.path = folder / STATE_FOLDER / f"{session_id}{_LOG_SUFFIX}"
        self._process = os.getpid()
        self._file: int | None = None
        self._is_torn = False

    def append(self, line: bytes) -> bool:
        """Write a line; return False if it was lost."""
        if os.getpid() != self._process:
            # A forked child must not write into its parent's files.
            return True
        try:
            if self._file is None:
                self._file = self._open_locked()
            # Terminate a line that a full disk cut off.
            _write(self._file, b"\n" + line if self._is_torn else line)
        except OSError as error:
            self._is_torn = self._file is not None
            record_error("write", error)
            warn_once(f"cannot write {self.path}: {error.strerror or error}; events are being lost")
            return False
        self._is_torn = False
        return True

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and os.getpid() == self._process:
            os.close(self._file)
            self._file = None

    def after_fork(self) -> None:
        """Close the file in a forked child, so that the lock is released when the parent exits."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open_locked(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = _open(self.path)
        except FileNotFoundError:
            # Removed just now by the expansion of another session of this folder.
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = _open(self.path)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file


def _open(path: Path) -> int:
    # Readable by the user only: the log holds cell sources before secrets are redacted.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _write(file: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(file, rest) :]


def logs_in(folder: Path) -> list[Path]:
    """Return the logs in `folder` that are not fully expanded."""
    return sorted((folder / STATE_FOLDER).glob(f"*{_LOG_SUFFIX}"))


def is_abandoned(log: Path) -> bool:
    """Return whether the kernel of a log has exited, which releases its lock."""
    try:
        with log.open("rb") as file:
            # Shared, so that two concurrent checks do not mistake each other for the kernel.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        # The kernel is running, or another process has just removed the log.
        return False
    return True


def folders_with_logs(root: Path) -> Iterator[Path]:
    """Yield the session folders below `root` with logs that are not fully expanded."""
    for folder in sorted(root.glob(f"*/{STATE_FOLDER}")):
        yield folder.parent
