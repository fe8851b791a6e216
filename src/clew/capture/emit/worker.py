"""Worker process beside the kernel: expand kernel logs and write event files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from clew.capture.diagnostics import record_error, warn_once
from clew.capture.emit.delivery import DeliveryEndpoint, SpoolSender, find_endpoint, pending_folders
from clew.capture.emit.files import (
    CLOSED,
    STATE_FOLDER,
    StreamFiles,
    decode_entry,
    folders_with_logs,
    is_abandoned,
    logs_in,
)

_BYTES_PER_COMMIT = 4 << 20


class LogExpander:
    """Expands the logs of one folder incrementally."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._cursors: dict[Path, _LogCursor] = {}

    def poll(self) -> None:
        """Expand new log entries; remove the logs of kernels that have exited."""
        if not any(path not in self._cursors or self._cursors[path].has_changes() for path in logs_in(self.folder)):
            return
        with _folder_lock(self.folder):
            if not logs_in(self.folder):
                # Expanded and removed by another process in the meantime.
                return
            files = StreamFiles(self.folder)
            progress = files.progress()
            for path in logs_in(self.folder):
                # Taken out first: after an error it is ahead of the committed events, and the log is read again.
                cursor = self._cursors.pop(path, None) or _LogCursor(path)
                for position in cursor.expand(files, progress.logs.get(path.name, 0)):
                    progress.logs[path.name] = position
                    files.commit(progress.logs)
                if cursor.is_complete:
                    path.unlink()
                else:
                    self._cursors[path] = cursor
            self._remove_work_files()

    def _remove_work_files(self) -> None:
        """Remove the progress file once all logs are expanded."""
        if logs_in(self.folder):
            return
        for path in (self.folder / STATE_FOLDER).glob("progress.*"):
            path.unlink()
        with suppress(OSError):
            # Not empty: a session has just started.
            (self.folder / STATE_FOLDER).rmdir()


class _LogCursor:
    """Read position in one log, with its expander."""

    def __init__(self, path: Path) -> None:
        # Not needed in the kernel.
        from clew.capture.emit.expander import EventExpander

        self._path = path
        self._expander = EventExpander()
        self._position = 0
        self.is_complete = False

    def has_changes(self) -> bool:
        """Return whether the log has grown or its kernel has exited."""
        return self._path.stat().st_size > self._position or is_abandoned(self._path)

    def expand(self, files: StreamFiles, done: int) -> Iterator[int]:
        """Add the events after the first `done` bytes and yield the position after each batch to commit."""
        if done == CLOSED:
            self.is_complete = True
            return
        # Checked before reading, so that everything a dead kernel wrote is read.
        is_last = is_abandoned(self._path)
        uncommitted_bytes = 0
        with self._path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._add(line, files if self._position >= done else None)
                self._position += len(line)
                uncommitted_bytes += len(line)
                if uncommitted_bytes >= _BYTES_PER_COMMIT and self._position > done:
                    yield self._position
                    uncommitted_bytes = 0
        if is_last and self._position:
            for stream, event in self._expander.close():
                files.add(stream, event)
            self.is_complete = True
            yield CLOSED
        elif self._position > done:
            yield self._position

    def _add(self, line: bytes, files: StreamFiles | None) -> None:
        try:
            entry = decode_entry(line)
        except msgspec.DecodeError:
            # Cut off by a full disk, and counted as an error by the kernel.
            return
        try:
            for stream, event in self._expander.events(entry):
                if files is not None:
                    files.add(stream, event)
        except Exception as error:  # noqa: BLE001 - one bad entry must not affect the others
            record_error("expand", error)


@contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def expand_logs(folder: Path) -> None:
    """Expand the logs of one folder."""
    LogExpander(folder).poll()


def expand_abandoned(root: Path) -> None:
    """Expand the logs of exited kernels below `root`; the others have their workers."""
    for folder in folders_with_logs(root):
        if any(map(is_abandoned, logs_in(folder))):
            expand_logs(folder)


_POLL_SECONDS = 0.5
# Between the kernel and the disk; with the interval of the kernel, less than a second.
_EXPAND_SECONDS = 0.2
_FINISH_SECONDS = 30.0
_EXIT_SECONDS = 0.5
_DEFAULT_DELIVERY_SECONDS = "300"
_MAX_WAIT_SECONDS = 15.0
# Low, but not the lowest: with busy cores that gets no time at all.
_LOW_PRIORITY = 10


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
        # The worker has no stderr: warn about an unreadable configuration here.
        find_endpoint()
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
    os.nice(_LOW_PRIORITY)
    endpoint = find_endpoint()
    delivery = DeliveryThread(folder, endpoint) if endpoint is not None else None
    expander = RetryingExpander(folder)
    while True:
        expander.poll()
        if _has_ended(sys.stdin.buffer):
            break
    expander.poll(is_last=True)
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


class RetryingExpander:
    """Expands the logs of a folder. After a disk error, which may be temporary, it waits, twice as long each time.

    The log is still there, but all of it is read again.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._expander = LogExpander(folder)
        self._clock = clock
        self._wait, self._retry_at = _POLL_SECONDS, 0.0

    def poll(self, *, is_last: bool = False) -> None:
        """Expand new log entries unless it waits; the last call does not wait."""
        if self._clock() < self._retry_at and not is_last:
            return
        try:
            self._expander.poll()
        except OSError:
            self._retry_at = self._clock() + self._wait
            self._wait = min(2 * self._wait, _MAX_WAIT_SECONDS)
        else:
            self._wait = _POLL_SECONDS


def _has_ended(stream: IO[bytes]) -> bool:
    readable, _, _ = select.select([stream], [], [], _EXPAND_SECONDS)
    return bool(readable) and not stream.read(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
