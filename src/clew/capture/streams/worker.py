"""Worker process of a kernel: expands its log and delivers the events while the notebook runs.

    python -m clew.capture.streams.worker FOLDER

It exits when its stdin is closed, by the kernel or by its death.
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

from clew.capture.losses import warn_once
from clew.capture.streams.completion import LogExpander, expand_logs
from clew.capture.streams.delivery import SpoolSender, pending_folders
from clew.capture.streams.endpoint import DeliveryEndpoint, find_endpoint

_POLL_SECONDS = 0.5
_FINISH_SECONDS = 30.0
_EXIT_SECONDS = 0.5
_DEFAULT_DELIVERY_SECONDS = "300"
_MAX_WAIT_SECONDS = 15.0
_LOWEST_PRIORITY = 19


def is_worker_enabled() -> bool:
    """Return whether a worker process may be started."""
    return os.environ.get("CLEW_WORKER") != "off"


class Worker:
    """Handle of a session's worker process in the kernel; started once, on demand."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._folder = log.parent.parent
        self._process: subprocess.Popen[bytes] | None = None
        self._is_started = False

    def start(self) -> None:
        """Start the worker; if that fails, the log is expanded at the end."""
        if self._is_started or not is_worker_enabled():
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
                # Ctrl-C in a terminal is for the notebook; the worker exits when its stdin is closed.
                start_new_session=True,
            )

    def finish(self) -> None:
        """Wait with a timeout until the worker has expanded the log, and expand it here otherwise."""
        process, self._process = self._process, None
        if process is not None:
            _wait_for(process)
        if not self._log.exists():
            return
        try:
            expand_logs(self._folder)
        except OSError as error:
            # Nothing is lost: the next reader of the folder expands the log.
            warn_once(f"cannot write to {self._folder}: {error.strerror or error}; the captured log remains there")

    def after_fork(self) -> None:
        """Close the inherited pipe in a forked child, so that the worker notices when the parent exits."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._process = None


def _wait_for(process: subprocess.Popen[bytes]) -> None:
    """Close the worker's stdin and wait until it closes its stdout, which signals that all logs are expanded."""
    if process.stdin is not None:
        process.stdin.close()
    if process.stdout is not None:
        select.select([process.stdout], [], [], _FINISH_SECONDS)
        process.stdout.close()
    try:
        process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        # It continues to deliver; Popen would warn about a running child.
        process.returncode = 0


def main(folder: Path) -> None:
    """Expand the logs of a folder until stdin is closed, and deliver the events if there is an endpoint."""
    os.nice(_LOWEST_PRIORITY)
    endpoint = find_endpoint()
    delivery = DeliveryThread(folder, endpoint) if endpoint is not None else None
    expander = LogExpander(folder)
    while not _has_ended(sys.stdin.buffer):
        _poll(expander)
    _poll(expander)
    # The kernel waits for this, not for the delivery.
    sys.stdout.close()
    if delivery is not None:
        delivery.finish()


class DeliveryThread:
    """Thread that delivers a folder and the pending folders next to it; an endpoint may block."""

    def __init__(self, folder: Path, endpoint: DeliveryEndpoint) -> None:
        self._folder = folder
        self._endpoint = endpoint
        self._finish_requested = threading.Event()
        self._senders: dict[Path, SpoolSender] = {}
        # Before anything is expanded: existing content of the folder belongs to other sessions.
        self._acquire(folder)
        self._thread = threading.Thread(target=self._run, name="clew-delivery")
        self._thread.start()

    def finish(self) -> None:
        """Send the rest; what is not accepted within a few minutes is left to the next worker."""
        self._finish_requested.set()
        self._thread.join()

    def _acquire(self, folder: Path) -> None:
        sender = SpoolSender(folder, self._endpoint)
        with contextlib.suppress(OSError):
            if sender.acquire():
                self._senders[folder] = sender

    def _run(self) -> None:
        for folder in pending_folders(self._folder.parent):
            if folder not in self._senders:
                self._acquire(folder)
        timeout = float(os.environ.get("CLEW_DELIVERY_SECONDS", _DEFAULT_DELIVERY_SECONDS))
        deadline, wait = 0.0, _POLL_SECONDS
        while True:
            if self._folder not in self._senders:
                # Locked by another session's worker until that exits.
                self._acquire(self._folder)
            is_finishing = self._finish_requested.is_set()
            deadline = deadline or (time.monotonic() + timeout if is_finishing else 0.0)
            is_sent = all(sender.poll() for sender in self._senders.values())
            is_done = is_sent and not any(sender.has_running_apps for sender in self._senders.values())
            if is_finishing and (is_done or time.monotonic() > deadline):
                break
            wait = _POLL_SECONDS if is_sent else min(2 * wait, _MAX_WAIT_SECONDS)
            if is_finishing:
                time.sleep(wait)
            else:
                self._finish_requested.wait(wait)
        for sender in self._senders.values():
            sender.close()


def _poll(expander: LogExpander) -> None:
    # A disk error may be temporary; the log is still there.
    with contextlib.suppress(OSError):
        expander.poll()


def _has_ended(stream: IO[bytes]) -> bool:
    readable, _, _ = select.select([stream], [], [], _POLL_SECONDS)
    return bool(readable) and not stream.read(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
