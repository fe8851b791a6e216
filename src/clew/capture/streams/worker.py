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
import threading
import time
from pathlib import Path
from typing import IO

from clew.capture.losses import notice_once
from clew.capture.streams.completion import Completion, complete
from clew.capture.streams.delivery import Delivery, undelivered_below
from clew.capture.streams.endpoint import Endpoint, find_endpoint

_SECONDS_BETWEEN = 0.5
_SECONDS_TO_FINISH = 30.0
_SECONDS_TO_LEAVE = 0.5
_SECONDS_TO_DELIVER = "300"
_LONGEST_WAIT = 15.0
_LOWEST_PRIORITY = 19


def is_wanted() -> bool:
    """Whether a process beside the kernel is allowed."""
    return os.environ.get("CLEW_WORKER") != "off"


class Worker:
    """The worker of one session, as its kernel sees it: started when first needed, and once."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._folder = log.parent.parent
        self._process: subprocess.Popen[bytes] | None = None
        self._is_started = False

    def start(self) -> None:
        """Have the log expanded from now on, unless that cannot be: then it is done in the end."""
        if self._is_started or not is_wanted():
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
            # Nothing is lost: whoever reads the folder next completes it.
            notice_once(f"cannot write to {self._folder}: {error.strerror or error}; what was captured waits there")

    def forget(self) -> None:
        """In a forked child: the worker is the parent's, whose death it must see although the child lives on."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
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
    """Expand the logs of a folder until the input ends, and send what comes of them if there is an endpoint."""
    os.nice(_LOWEST_PRIORITY)
    endpoint = find_endpoint()
    sender = Sender(folder, endpoint) if endpoint is not None else None
    completion = Completion(folder)
    while not _has_ended(sys.stdin.buffer):
        _go_on(completion)
    _go_on(completion)
    # The kernel waits for this, and not for what is sent.
    sys.stdout.close()
    if sender is not None:
        sender.finish()


class Sender:
    """Sends a folder's streams, and those that earlier workers left beside it, in a thread: an endpoint may hang."""

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._is_over = threading.Event()
        self._deliveries: dict[Path, Delivery] = {}
        # Before anything is expanded: what stands in the folder already is of others.
        self._take(folder)
        self._thread = threading.Thread(target=self._work, name="clew-delivery")
        self._thread.start()

    def finish(self) -> None:
        """Send the rest; what the endpoint does not take within a few minutes waits for the next worker."""
        self._is_over.set()
        self._thread.join()

    def _take(self, folder: Path) -> None:
        delivery = Delivery(folder, self._endpoint)
        with contextlib.suppress(OSError):
            if delivery.begin():
                self._deliveries[folder] = delivery

    def _work(self) -> None:
        for folder in undelivered_below(self._folder.parent):
            if folder not in self._deliveries:
                self._take(folder)
        patience = float(os.environ.get("CLEW_DELIVERY_SECONDS", _SECONDS_TO_DELIVER))
        deadline, wait = 0.0, _SECONDS_BETWEEN
        while True:
            if self._folder not in self._deliveries:
                # Another session's worker has it in hand, until it ends.
                self._take(self._folder)
            is_over = self._is_over.is_set()
            deadline = deadline or (time.monotonic() + patience if is_over else 0.0)
            is_sent = all(delivery.go_on() for delivery in self._deliveries.values())
            is_done = is_sent and not any(delivery.is_growing for delivery in self._deliveries.values())
            if is_over and (is_done or time.monotonic() > deadline):
                break
            wait = _SECONDS_BETWEEN if is_sent else min(2 * wait, _LONGEST_WAIT)
            if is_over:
                time.sleep(wait)
            else:
                self._is_over.wait(wait)
        for delivery in self._deliveries.values():
            delivery.end()


def _go_on(completion: Completion) -> None:
    # A disk that refuses now may not the next time; the log waits.
    with contextlib.suppress(OSError):
        completion.go_on()


def _has_ended(given: IO[bytes]) -> bool:
    readable, _, _ = select.select([given], [], [], _SECONDS_BETWEEN)
    return bool(readable) and not given.read(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
