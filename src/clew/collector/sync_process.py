"""A process that syncs the files it is handed, one after the other, until its input ends.

    python sync_process.py <socket

Its interpreter starts without packages: only the standard library's.
"""

from __future__ import annotations

import os
import socket


def main() -> None:
    """Answer each file with a byte: zero when it is on disk, or else the number of the fault."""
    with socket.socket(fileno=0) as asked:
        while True:
            said, files, _, _ = socket.recv_fds(asked, 1, 1)
            if not said:
                return
            asked.send(bytes((_fault_of(*files),)))


def _fault_of(file: int) -> int:
    try:
        os.fdatasync(file)
    except OSError as fault:
        return fault.errno or 0xFF
    finally:
        os.close(file)
    return 0


if __name__ == "__main__":
    main()
