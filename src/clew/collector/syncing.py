"""Syncing beside a busy loop: a thread would wait longer for the interpreter's lock than for the disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable

from clew.collector import sync_process


class Syncer:
    """Syncs files, one at a time, in a process of its own, which ends when this one closes it or is gone."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answered: Callable[[], None]) -> None:
        """Start the process; `answered` is called on the loop when `end` has something to take."""
        self._loop = loop
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = _process_reading(theirs)
            except OSError:
                self._socket.close()
                raise
        loop.add_reader(self._socket, answered)

    def begin(self, file: int) -> None:
        """Have a file synced."""
        try:
            socket.send_fds(self._socket, [b"."], [file])
        except OSError:
            # The process is gone, or the system lacks something: then the socket must end, for nobody will answer.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def end(self, file: int) -> bool:
        """Take the answer, and wait for it if need be; False if the process is gone, and the file was synced here.

        OSError if the file may not be on disk.
        """
        answer = self._answer()
        if not answer:
            os.fdatasync(file)
        elif fault := answer[0]:
            raise OSError(fault, os.strerror(fault))
        return bool(answer)

    def close(self) -> None:
        """Let the process end, and wait for that."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._process.wait()

    def _answer(self) -> bytes:
        try:
            return self._socket.recv(1)
        except OSError:
            return b""


def _process_reading(given: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", sync_process.__file__],
        stdin=given.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C in a terminal is for the collector, which still has something to sync then.
        start_new_session=True,
    )
