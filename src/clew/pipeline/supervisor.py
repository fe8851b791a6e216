"""Supervision of the pipeline process of `clew up`: it is restarted when it exits, and ends with its parent."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Self

import msgspec
from msgspec import Struct

from clew.data_dir import DataDir, replace_file
from clew.errors import ClewError, UsageError

_LOG = logging.getLogger("clew.pipeline")
_STATE_FILE = "supervisor.json"
_MIN_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0
# A process that ran this long had started: the next failure is a new one.
_HEALTHY_SECONDS = 60.0
# More than the pipeline takes to drain; the lake and the index survive a kill.
_STOP_SECONDS = 9.0


class SupervisorState(Struct, frozen=True):
    """State of a supervised pipeline process."""

    supervisor_pid: int
    is_running: bool
    restarts: int = 0
    # Such as "exit code 1" or "SIGKILL".
    last_exit: str | None = None
    last_exit_at: str | None = None
    restart_at: str | None = None

    def __str__(self) -> str:
        state = "running" if self.is_running else f"restarts at {self.restart_at}"
        if self.last_exit is None:
            return state
        times = "once" if self.restarts == 1 else f"{self.restarts} times"
        return f"{state}; restarted {times}, last exit: {self.last_exit} at {self.last_exit_at}"


def read_supervisor_state(home: DataDir) -> SupervisorState | None:
    """Read the state of the pipeline of a running `clew up`; None if there is none."""
    try:
        state = msgspec.json.decode((home.root / _STATE_FILE).read_bytes(), type=SupervisorState)
    except (OSError, msgspec.DecodeError):
        return None
    try:
        os.kill(state.supervisor_pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        # It runs, as another user.
        return state
    return state


def exit_with_parent() -> None:
    """End this process, and so its lock and its JVM, when the parent closes the pipe on stdin."""

    def wait_for_eof() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os._exit(1)

    Thread(target=wait_for_eof, name="clew-parent", daemon=True).start()


class PipelineSupervisor:
    """Runs a pipeline command in a child process, and restarts it with exponential backoff when it exits.

    Used as a context manager. `on_fatal` is called if the command rejects its arguments.
    """

    def __init__(
        self,
        home: DataDir,
        command: Sequence[str],
        env: Mapping[str, str],
        on_fatal: Callable[[], None],
        min_backoff_seconds: float = _MIN_BACKOFF_SECONDS,
    ) -> None:
        self.state = SupervisorState(os.getpid(), is_running=False)
        self._state_file: Path = home.root / _STATE_FILE
        self._command = command
        self._env = env
        self._on_fatal = on_fatal
        self._min_backoff_seconds = min_backoff_seconds
        self._has_fatal_error = False
        self._process: subprocess.Popen[bytes] | None = None
        self._stop = Event()
        # Held while the process is started, so that a stop sees it.
        self._lock = Lock()
        self._thread = Thread(target=self._run, name="clew-supervisor", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._stop.set()
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join()
        self._state_file.unlink(missing_ok=True)
        if self._has_fatal_error:
            raise ClewError("The pipeline could not be started.", hint="See its error message above.")

    def _run(self) -> None:
        backoff = self._min_backoff_seconds
        while True:
            started = time.monotonic()
            try:
                process = self._start()
            except OSError as error:
                # Such as a lack of memory for another process.
                reason = error.strerror or str(error)
            else:
                if process is None:
                    return
                with process:  # closes its stdin
                    code = process.wait()
                if code == UsageError.exit_code and not self.state.restarts and not self._stop.is_set():
                    self._has_fatal_error = True
                    self._on_fatal()
                    return
                reason = _describe_exit(code)
            if self._stop.is_set():
                return
            if time.monotonic() - started >= _HEALTHY_SECONDS:
                backoff = self._min_backoff_seconds
            self._record_exit(reason, backoff)
            self._stop.wait(backoff)
            backoff = min(2 * backoff, _MAX_BACKOFF_SECONDS)

    def _start(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._stop.is_set():
                return None
            # In its own session: Ctrl-C must reach only the server, which drains first.
            self._process = subprocess.Popen(
                self._command, env=self._env, start_new_session=True, stdin=subprocess.PIPE
            )
        self._set_state(msgspec.structs.replace(self.state, is_running=True, restart_at=None))
        return self._process

    def _record_exit(self, reason: str, backoff: float) -> None:
        now = datetime.now(UTC)
        _LOG.warning("The pipeline ended (%s). It restarts in %g s. Events are still collected.", reason, backoff)
        self._set_state(
            msgspec.structs.replace(
                self.state,
                is_running=False,
                restarts=self.state.restarts + 1,
                last_exit=reason,
                last_exit_at=now.isoformat(timespec="seconds"),
                restart_at=(now + timedelta(seconds=backoff)).isoformat(timespec="seconds"),
            )
        )

    def _set_state(self, state: SupervisorState) -> None:
        self.state = state
        try:
            replace_file(self._state_file, msgspec.json.encode(state))
        except OSError as error:
            _LOG.warning("Cannot write %s: %s.", self._state_file, error.strerror)


def _describe_exit(code: int) -> str:
    """Describe the return code of a process, such as `exit code 1` or `SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        # Most real-time signals have no name.
        return f"signal {-code}"
