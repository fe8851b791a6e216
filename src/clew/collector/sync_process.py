"""Helper process that syncs the file descriptors it receives until its input ends.

    python sync_process.py <socket

The interpreter starts without site-packages: standard library only.
"""

from __future__ import annotations

import os
import socket


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


if __name__ == "__main__":
    main()
