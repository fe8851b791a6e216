"""Tests of the supervision of a child process, with small real processes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.pipeline.supervisor import PipelineSupervisor, SupervisorState, read_supervisor_state

DEADLINE_SECONDS = 60
# Appends its process id to a file, and waits.
RUN = "import os, sys, time; print(os.getpid(), file=open(sys.argv[1], 'a')); time.sleep(600)"
EXIT = "import sys; print('x', file=open(sys.argv[1], 'a')); sys.exit(int(sys.argv[2]))"
# Like `clew up`: a supervisor of a child that ends with it.
PARENT = """
import os, sys, time
from pathlib import Path
from clew.data_dir import DataDir
from clew.pipeline.supervisor import PipelineSupervisor
CHILD = '''
import os, sys, time
from clew.pipeline.supervisor import exit_with_parent
exit_with_parent()
print(os.getpid(), file=open(sys.argv[1], "a"))
time.sleep(600)
'''
with PipelineSupervisor(
    DataDir(Path(sys.argv[1])), [sys.executable, "-c", CHILD, sys.argv[1] + "/starts"], os.environ, lambda: None
):
    time.sleep(600)
"""


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.01)


def read_lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def supervise(
    home: DataDir, code: str, *arguments: str, on_fatal: Callable[[], None] = lambda: None
) -> PipelineSupervisor:
    command = [sys.executable, "-c", code, str(home.root / "starts"), *arguments]
    return PipelineSupervisor(home, command, os.environ, on_fatal, min_backoff_seconds=0.01)


@pytest.fixture
def home(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path)


def test_restarts_after_a_signal_without_a_name(home: DataDir) -> None:
    starts = home.root / "starts"
    number = signal.SIGRTMIN + 3
    with supervise(home, RUN) as supervisor:
        wait_until(lambda: len(read_lines(starts)) == 1)
        os.kill(int(read_lines(starts)[0]), number)
        wait_until(lambda: len(read_lines(starts)) == 2)
        assert supervisor.state.last_exit == f"signal {number}"


def test_restarts_after_a_failed_start(home: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    starts, errors = home.root / "starts", [OSError(errno.EAGAIN, "Resource temporarily unavailable")]
    start = subprocess.Popen

    def start_or_fail(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        if errors:
            raise errors.pop()
        return start(*args, **options)

    monkeypatch.setattr("clew.pipeline.supervisor.subprocess.Popen", start_or_fail)
    with supervise(home, RUN) as supervisor:
        wait_until(lambda: read_lines(starts))
        assert supervisor.state.last_exit == "Resource temporarily unavailable"


def test_restarts_a_killed_process_and_tells_why(home: DataDir) -> None:
    starts = home.root / "starts"
    with supervise(home, RUN) as supervisor:
        wait_until(lambda: len(read_lines(starts)) == 1)
        assert read_supervisor_state(home) == SupervisorState(os.getpid(), is_running=True)
        os.kill(int(read_lines(starts)[0]), signal.SIGKILL)
        wait_until(lambda: len(read_lines(starts)) == 2)
        wait_until(lambda: supervisor.state.is_running)
        state = read_supervisor_state(home)
        assert state == supervisor.state
        assert (state.restarts, state.last_exit) == (1, "SIGKILL")
        assert "running; restarted once, last exit: SIGKILL" in str(state)
        last = int(read_lines(starts)[1])
    assert not is_alive(last)
    assert read_supervisor_state(home) is None


def test_restarts_a_process_that_fails(home: DataDir) -> None:
    with supervise(home, EXIT, "1") as supervisor:
        wait_until(lambda: len(read_lines(home.root / "starts")) >= 3)
        wait_until(lambda: supervisor.state.restarts >= 3)
        assert supervisor.state.last_exit == "exit code 1"


def test_invalid_settings_are_fatal(home: DataDir) -> None:
    calls: list[str] = []
    with (
        pytest.raises(ClewError, match="could not be started"),
        supervise(home, EXIT, "2", on_fatal=lambda: calls.append("fatal")),
    ):
        wait_until(lambda: calls)
    assert read_lines(home.root / "starts") == ["x"]


def test_the_child_of_a_killed_supervisor_ends(home: DataDir) -> None:
    starts = home.root / "starts"
    with subprocess.Popen([sys.executable, "-c", PARENT, str(home.root)]) as parent:
        wait_until(lambda: read_lines(starts))
        assert read_supervisor_state(home) is not None
        parent.kill()
    wait_until(lambda: not is_alive(int(read_lines(starts)[0])))
    assert read_supervisor_state(home) is None


@pytest.mark.parametrize("content", ["", "{}", '{"supervisor_pid": 1'])
def test_ignores_a_damaged_state_file(content: str, home: DataDir) -> None:
    (home.root / "supervisor.json").write_text(content)
    assert read_supervisor_state(home) is None
