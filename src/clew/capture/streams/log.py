"""The kernel's log: a file per session, beside its streams until they are complete."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from clew.capture.losses import count_loss, notice_once

FOLDER = ".capture"
_SUFFIX = ".log"


class KernelLog:
    """Lines are handed to the system as they come: they survive the kernel, whatever kills it.

    A disk that refuses costs events, never the notebook.
    """

    def __init__(self, folder: Path, session_id: str) -> None:
        self.folder = folder
        self.path = folder / FOLDER / f"{session_id}{_SUFFIX}"
        self._process = os.getpid()
        self._file: int | None = None
        self._is_torn = False

    def append(self, line: bytes) -> bool:
        """Write one line; False if it was lost."""
        if os.getpid() != self._process:
            # A forked child must not write into its parent's files.
            return True
        try:
            if self._file is None:
                self._file = self._opened()
            # What a full disk cut off must not swallow the line after it.
            _write(self._file, b"\n" + line if self._is_torn else line)
        except OSError as error:
            self._is_torn = self._file is not None
            count_loss("write", error)
            notice_once(f"cannot write {self.path}: {error.strerror or error}; events are being lost")
            return False
        self._is_torn = False
        return True

    def close(self) -> None:
        """Nothing more is written."""
        if self._file is not None and os.getpid() == self._process:
            os.close(self._file)
            self._file = None

    def forget(self) -> None:
        """In a forked child: leave the file to the parent, whose death must be seen although the child lives on."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            file = _open(self.path)
        except FileNotFoundError:
            # Whoever completed another session of this folder has just removed it.
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = _open(self.path)
        fcntl.flock(file, fcntl.LOCK_EX)
        return file


def _open(path: Path) -> int:
    # For the user alone: cells stand here as they are written, before secrets are taken out.
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _write(file: int, line: bytes) -> None:
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(file, rest) :]


def logs_in(folder: Path) -> list[Path]:
    """The logs of sessions whose streams in `folder` are not complete yet."""
    return sorted((folder / FOLDER).glob(f"*{_SUFFIX}"))


def is_abandoned(log: Path) -> bool:
    """Whether the kernel that wrote a log is gone: its lock goes with it, however it ended."""
    try:
        with log.open("rb") as file:
            # Shared, so that two who ask at once do not take each other for the kernel.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, FileNotFoundError):
        # It is at work, or somebody else has just completed it.
        return False
    return True


def folders_with_logs(root: Path) -> Iterator[Path]:
    """The folders of sessions below `root` whose streams are not complete yet."""
    for folder in sorted(root.glob(f"*/{FOLDER}")):
        yield folder.parent
