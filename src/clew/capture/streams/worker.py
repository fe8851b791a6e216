"""The process beside a kernel that expands its log while the notebook goes on.

    python -m clew.capture.streams.worker FOLDER

It ends when its input does: when the kernel closes it, or is gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import IO

from clew.capture.losses import count_loss, notice_once
from clew.capture.streams.completion import Completion, complete

_SECONDS_BETWEEN = 0.5
_SECONDS_TO_FINISH = 30.0
_SECONDS_TO_LEAVE = 0.5
_LOWEST_PRIORITY = 19


class Worker:
    """The worker of one session, as its kernel sees it: started when first needed, and once."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._folder = log.parent.parent
        self._process: subprocess.Popen[bytes] | None = None
        self._is_started = False

    def start(self) -> None:
        """Have the log expanded from now on, unless that cannot be: then it is done in the end."""
        if self._is_started or os.environ.get("CLEW_WORKER") == "off":
            return
        self._is_started = True
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "CLEW_DISABLED": "1"}
        with contextlib.suppress(OSError, ValueError):
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                # Ctrl-C in a terminal is for the notebook; the worker ends when its input does.
                start_new_session=True,
            )

    def finish(self) -> None:
        """Wait until the streams are complete, for a while, and complete them here if nobody else did."""
        process, self._process = self._process, None
        if process is not None:
            _wait_for(process)
        if not self._log.exists():
            return
        try:
            complete(self._folder)
        except OSError as error:
            count_loss("expand", error)
            notice_once(f"cannot write to {self._folder}: {error.strerror or error}; what was captured waits there")

    def forget(self) -> None:
        """In a forked child: the worker is the parent's, whose death it must see although the child lives on."""
        if self._process is not None and self._process.stdin is not None:
            os.close(self._process.stdin.fileno())
            self._process.stdin = None
        self._process = None


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    """End the worker's input and wait until it says, by ending its output, that the streams are complete."""
    if process.stdin is not None:
        process.stdin.close()
    if process.stdout is not None:
        select.select([process.stdout], [], [], _SECONDS_TO_FINISH)
        process.stdout.close()
    try:
        process.wait(_SECONDS_TO_LEAVE)
    except subprocess.TimeoutExpired:
        # It goes on without us; Popen would warn of that.
        process.returncode = 0


def main(folder: Path) -> None:
    """Expand the logs of a folder until the input ends."""
    os.nice(_LOWEST_PRIORITY)
    completion = Completion(folder)
    while not _has_ended(sys.stdin.buffer):
        _go_on(completion)
    _go_on(completion)
    sys.stdout.close()


def _go_on(completion: Completion) -> None:
    # A disk that refuses now may not the next time; the log waits.
    with contextlib.suppress(OSError):
        completion.go_on()


def _has_ended(given: IO[bytes]) -> bool:
    readable, _, _ = select.select([given], [], [], _SECONDS_BETWEEN)
    return bool(readable) and not given.read(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
