"""Sync log segments in a helper process.

The process runs this file without site-packages: it imports only the standard library.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable


def main() -> None:
    """Reply to each file with one byte: 0 when it is synced, else the errno."""
    with socket.socket(fileno=0) as connection:
        while True:
            message, files, _, _ = socket.recv_fds(connection, 1, 1)
            if not message:
                return
            connection.send(bytes((_sync(*files),)))


def _sync(file: int) -> int:
    try:
        os.fdatasync(file)
    except OSError as error:
        return error.errno or 0xFF
    finally:
        os.close(file)
    return 0


class FsyncHelper:
    """Syncs files one at a time in a helper process, which ends with this process."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_ready: Callable[[], None]) -> None:
        """Start the process; `on_ready` is called on the loop when `finish` has a result."""
        self._loop = loop
        self._socket, peer = socket.socketpair()
        with peer:
            try:
                self._process = _start_process(peer)
            except OSError:
                self._socket.close()
                raise
        loop.add_reader(self._socket, on_ready)

    def start(self, file: int) -> None:
        """Request a sync."""
        try:
            socket.send_fds(self._socket, [b"."], [file])
        except OSError:
            # The process has exited or the system lacks resources: close the socket, so that `finish` does not wait.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def finish(self, file: int) -> bool:
        """Wait for the result; False if the process has exited and the file was synced here.

        Raises OSError if the file may not be on disk.
        """
        reply = self._receive()
        if not reply:
            os.fdatasync(file)
        elif errno := reply[0]:
            raise OSError(errno, os.strerror(errno))
        return bool(reply)

    def close(self) -> None:
        """Stop the process and wait for it."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._process.wait()

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(1)
        except OSError:
            return b""


def _start_process(stdin: socket.socket) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", __file__],
        stdin=stdin.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Not stopped by Ctrl-C in a terminal: the collector still syncs on shutdown.
        start_new_session=True,
    )


if __name__ == "__main__":
    main()
