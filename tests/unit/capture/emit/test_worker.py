"""Tests of log expansion: the kernel's log gives the same streams in any number of steps, exactly once."""

from __future__ import annotations

import functools
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from clew.capture.diagnostics import error_counts
from clew.capture.emit.files import FILES, STATE_FOLDER, logs_in
from clew.capture.emit.worker import LogExpander, RetryingExpander, expand_abandoned, expand_logs
from clew.capture.environments.cell_runner import execution_context, open_session
from clew.capture.environments.session import Cell, Session

pytestmark = pytest.mark.slow

CELLS = ("df = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})", "df['c'] = df['a'] * 2\nout = df[df['b'] > 3]", "out['nope']")

WriteCells = Callable[..., Session]


@pytest.fixture
def write_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteCells:
    """Return a function that runs cells of an open session without a worker."""
    monkeypatch.setenv("CLEW_OUT", str(tmp_path / "out"))
    monkeypatch.setenv("CLEW_WORKER", "off")
    namespace: dict[str, Any] = {"pd": pd}

    def write(*sources: str, session: Session | None = None) -> Session:
        session = session or open_session("book.py")
        for source in sources:
            code = compile(source, f"cell_{session.executions}", "exec")
            with execution_context(session, Cell(f"id{session.executions}", source), code, namespace) as execution:
                try:
                    exec(code, namespace)
                except KeyError as error:
                    execution.error = error
        return session

    return write


def read_streams(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}


def first_lines(log: bytes, lines: int) -> bytes:
    return b"".join(log.splitlines(keepends=True)[:lines])


@pytest.fixture
def log(write_cells: WriteCells, tmp_path: Path) -> Path:
    """Return the log of a session that was killed after its last cell."""
    write_cells(*CELLS)
    (path,) = logs_in(tmp_path / "out")
    return Path(shutil.copy(path, tmp_path))


def folder_with_log(log: bytes, folder: Path) -> Path:
    (folder / STATE_FOLDER).mkdir(parents=True, exist_ok=True)
    (folder / STATE_FOLDER / "s.log").write_bytes(log)
    return folder


def test_expand_logs_leaves_only_the_streams(log: Path, tmp_path: Path) -> None:
    folder = folder_with_log(log.read_bytes(), tmp_path / "whole")
    expand_logs(folder)
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert error_counts() == {}


def test_streams_are_equal_for_any_number_of_steps(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    complete_log = log.read_bytes()
    expand_logs(folder_with_log(complete_log, tmp_path / "whole"))
    expected = read_streams(tmp_path / "whole")
    # The kernel is alive until the last step.
    monkeypatch.setattr("clew.capture.emit.worker.is_abandoned", lambda path: path.stat().st_size == len(complete_log))
    for lines in range(1, complete_log.count(b"\n")):
        folder = folder_with_log(first_lines(complete_log, lines) + b'["end",17', tmp_path / f"{lines}")
        LogExpander(folder).poll()
        # The first expander was killed during an append.
        with (folder / FILES[1]).open("ab") as file:
            file.write(b'{"eventType": "COM')
        expand_logs(folder_with_log(complete_log, folder))
        assert read_streams(folder) == expected


def test_existing_streams_are_appended_to(log: Path, tmp_path: Path) -> None:
    folder = folder_with_log(log.read_bytes(), tmp_path / "old")
    (folder / FILES[0]).write_text('{"event_type": "cell_execution_start"}\n')
    expand_logs(folder)
    assert (folder / FILES[0]).read_text().startswith('{"event_type": "cell_execution_start"}\n')


def test_end_is_written_once_after_an_interrupted_expansion(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with_log(log.read_bytes(), tmp_path / "one")

    def interrupt(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", interrupt)
        with pytest.raises(KeyboardInterrupt):
            expand_logs(folder)
    written = read_streams(folder)
    expand_logs(folder)
    assert read_streams(folder) == written
    assert not logs_in(folder)


def test_running_session_is_not_expanded(write_cells: WriteCells, tmp_path: Path) -> None:
    session = write_cells(CELLS[0])
    expand_abandoned(tmp_path)
    assert not read_streams(tmp_path / "out")
    session.end()
    assert set(read_streams(tmp_path / "out")) == set(FILES)


def test_sessions_in_one_folder_are_independent(write_cells: WriteCells, tmp_path: Path) -> None:
    first, second = write_cells(CELLS[0]), write_cells(CELLS[0])
    write_cells(CELLS[1], session=first)
    first.end()
    write_cells(CELLS[1], session=second)
    second.end()
    events = [*map(msgspec.json.decode, (tmp_path / "out" / FILES[2]).read_bytes().splitlines())]
    operations = [(event["session_id"], event["operation_method"]) for event in events]
    for session in (first, second):
        assert [method for session_id, method in operations if session_id == session.session_id] == [
            "DataFrame",
            "__setitem__",
            "__getitem__",
        ]


def test_truncated_line_is_skipped(log: Path, tmp_path: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    truncated = b"".join([*lines[:2], lines[2][:40], b"\n", *lines[3:]])
    folder = folder_with_log(truncated, tmp_path / "truncated")
    expand_logs(folder)
    ends = [*map(msgspec.json.decode, (folder / FILES[1]).read_bytes().splitlines())]
    assert ends[-1]["eventType"] == "ABORT"


@contextmanager
def limited_file_size(size: int) -> Iterator[None]:
    """Limit the size of the files that this process can write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_expansion_resumes_after_a_full_disk(log: Path, tmp_path: Path) -> None:
    expand_logs(folder_with_log(log.read_bytes(), tmp_path / "whole"))
    folder = folder_with_log(log.read_bytes(), tmp_path / "full")
    with limited_file_size(len(log.read_bytes())), pytest.raises(OSError, match="File too large"):
        expand_logs(folder)
    expand_logs(folder)
    assert read_streams(folder) == read_streams(tmp_path / "whole")


def test_a_running_expander_resumes_after_a_full_disk(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete_log = log.read_bytes()
    expand_logs(folder_with_log(complete_log, tmp_path / "whole"))
    monkeypatch.setattr("clew.capture.emit.worker.is_abandoned", lambda path: path.stat().st_size == len(complete_log))
    for lines in range(1, complete_log.count(b"\n")):
        folder = folder_with_log(first_lines(complete_log, lines), tmp_path / f"{lines}")
        expander = LogExpander(folder)
        with limited_file_size(64), pytest.raises(OSError, match="File too large"):
            expander.poll()
        folder_with_log(complete_log, folder)
        expander.poll()
        assert read_streams(folder) == read_streams(tmp_path / "whole")


def test_waits_longer_after_each_error_of_the_disk(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expand_logs(folder_with_log(log.read_bytes(), tmp_path / "whole"))
    folder = folder_with_log(log.read_bytes(), tmp_path / "full")
    now, polls = 100.0, []
    poll = LogExpander.poll

    def record_poll(expander: LogExpander) -> None:
        polls.append(now)
        poll(expander)

    monkeypatch.setattr(LogExpander, "poll", record_poll)
    expander = RetryingExpander(folder, lambda: now)
    with limited_file_size(64):
        while now < 200:
            expander.poll()
            now += 0.25
    assert 5 < len(polls) < 15
    assert polls[1] - polls[0] == 0.5
    expander.poll(is_last=True)
    assert read_streams(folder) == read_streams(tmp_path / "whole")


def test_progress_of_a_loop_gives_one_event(write_cells: WriteCells, tmp_path: Path) -> None:
    session = write_cells(CELLS[0])
    (log,) = logs_in(tmp_path / "out")
    df = pd.DataFrame({"a": [1, 2]})
    rounds = 0
    with execution_context(session, Cell("loop", ""), None, {}) as execution:
        while b'"progress"' not in log.read_bytes() or rounds % 7:
            df.head()
            rounds += 1
            session.recorder.execution_progressed(execution)
    session.end()
    event = msgspec.json.decode((tmp_path / "out" / FILES[2]).read_bytes().splitlines()[-1])
    assert (event["operation_method"], event["count"]) == ("head", rounds)
    assert error_counts() == {}


KILLED = """
import os, signal
import pandas as pd
from clew.capture.environments.cell_runner import open_session, execution_context
from clew.capture.environments.session import Cell
from clew.capture.tracking import track
track()
session = open_session("book.py")
with execution_context(session, Cell("one", ""), None, globals()):
    df = pd.DataFrame({"a": [1]})
with execution_context(session, Cell("two", ""), None, globals()):
    out = df.head()
    os.kill(os.getpid(), signal.SIGKILL)
"""


FORKED = KILLED.replace(
    "    os.kill",
    "    reader, writer = os.pipe()\n"
    "    if os.fork() == 0:\n"
    "        os.write(writer, b'.')\n"
    "        os.read(0, 1)\n"
    "        os._exit(0)\n"
    "    os.read(reader, 1)\n"
    "    os.kill",
)


def test_killed_kernel_with_a_living_child_is_detected(tmp_path: Path) -> None:
    environment = {**os.environ, "CLEW_OUT": str(tmp_path / "out")}
    with subprocess.Popen([sys.executable, "-c", FORKED], env=environment, stdin=subprocess.PIPE) as kernel:
        assert kernel.wait(60) == -signal.SIGKILL
        expand_abandoned(tmp_path)
        assert {path.name for path in (tmp_path / "out").iterdir()} == set(FILES)


@pytest.mark.parametrize("worker", ["off", "on"])
def test_streams_of_a_killed_kernel_are_complete(tmp_path: Path, worker: str) -> None:
    environment = {**os.environ, "CLEW_STREAMS": str(tmp_path), "CLEW_SESSION_ID": "5e551011", "CLEW_WORKER": worker}
    environment["HOME"] = str(tmp_path)
    process = subprocess.run([sys.executable, "-c", KILLED], env=environment, cwd=tmp_path, check=False, timeout=60)
    assert process.returncode == -signal.SIGKILL
    expand_abandoned(tmp_path)
    events = [*map(msgspec.json.decode, (tmp_path / "5e551011" / FILES[1]).read_bytes().splitlines())]
    jobs = [(event["eventType"], event["job"]["name"]) for event in events]
    assert jobs == [
        ("START", "book"),
        ("START", "book/one"),
        ("START", "book/one/pandas_DataFrame"),
        ("COMPLETE", "book/one/pandas_DataFrame"),
        ("COMPLETE", "book/one"),
        ("START", "book/two"),
        ("ABORT", "book/two"),
        ("ABORT", "book"),
    ]
    assert {path.name for path in (tmp_path / "5e551011").iterdir()} == set(FILES)


LONG_OPERATION = """
import sys
import pandas as pd

df = pd.DataFrame({"a": [1, 2]})
def wait(column):
    sys.stdin.readline()
    return column
out = df.apply(wait)
"""


def read_lineage(folder: Path) -> list[dict[str, Any]]:
    files = [*folder.glob(f"*/{FILES[1]}"), *folder.glob(FILES[1])]
    return [msgspec.json.decode(line) for file in files for line in file.read_bytes().splitlines()]


def wait_for(condition: Callable[[], Any], kernel: subprocess.Popen[bytes]) -> Any:
    """Poll until a condition holds; the kernel must still be running then."""
    deadline = time.monotonic() + 60
    while not (result := condition()) and time.monotonic() < deadline:
        assert kernel.poll() is None, "the kernel ended"
        time.sleep(0.02)
    return result


def start_of(folder: Path, job: str) -> dict[str, Any] | None:
    starts = [event for event in read_lineage(folder) if event["eventType"] == "START"]
    return next((event for event in starts if event["job"]["name"] == job), None)


def run_paused(source: str, folder: Path) -> subprocess.Popen[bytes]:
    """Run a script under capture that waits for lines on its standard input."""
    (folder / "job.py").write_text(source)
    environment = {**os.environ, "CLEW_STREAMS": str(folder), "CLEW_PROJECT": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "clew.capture.bootstrap", str(folder / "job.py")], env=environment, stdin=subprocess.PIPE
    )


def test_starts_are_on_disk_while_a_script_runs(tmp_path: Path) -> None:
    with run_paused(LONG_OPERATION, tmp_path) as kernel:
        assert kernel.stdin is not None
        assert wait_for(lambda: start_of(tmp_path, "job"), kernel)
        assert wait_for(lambda: start_of(tmp_path, "job/job"), kernel)
        # An operation that has ended, and one that is still running.
        assert wait_for(lambda: start_of(tmp_path, "job/job/pandas_DataFrame"), kernel)
        running = wait_for(lambda: start_of(tmp_path, "job/job/dataframe_apply"), kernel)
        kernel.stdin.write(b"\n" * 10)
        kernel.stdin.close()
        assert kernel.wait(60) == 0
    events = [event for event in read_lineage(tmp_path) if event["run"]["runId"] == running["run"]["runId"]]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert {event["job"]["name"] for event in events} == {"job/job/dataframe_apply"}
    assert events[1]["outputs"][0]["name"] == "job/out"
    assert events[0]["emitted_at"] < events[1]["eventTime"] < events[1]["emitted_at"]
    runs = [event["run"]["runId"] for event in read_lineage(tmp_path) if event["eventType"] == "START"]
    assert len(runs) == len(set(runs))


def test_killed_script_keeps_its_operations(tmp_path: Path) -> None:
    with run_paused(LONG_OPERATION, tmp_path) as kernel:
        for operation in ("pandas_DataFrame", "dataframe_apply"):
            assert wait_for(functools.partial(start_of, tmp_path, f"job/job/{operation}"), kernel)
        kernel.kill()
        kernel.wait(60)
    expand_abandoned(tmp_path)
    jobs = [(event["eventType"], event["job"]["name"].removeprefix("job")) for event in read_lineage(tmp_path)]
    assert jobs[-4:] == [
        ("COMPLETE", "/job/pandas_DataFrame"),
        ("ABORT", "/job/dataframe_apply"),
        ("ABORT", "/job"),
        ("ABORT", ""),
    ]


def test_long_operation_without_a_frame_is_complete(tmp_path: Path) -> None:
    source = "import pandas as pd\ndf = pd.DataFrame({'a': [1]})\nlen(df.agg(lambda column: len(input())))\n"
    with run_paused(source, tmp_path) as kernel:
        assert kernel.stdin is not None
        running = wait_for(lambda: start_of(tmp_path, "job/job/dataframe_agg"), kernel)
        kernel.stdin.write(b"\n" * 10)
        kernel.stdin.close()
        assert kernel.wait(60) == 0
    events = [event for event in read_lineage(tmp_path) if event["run"]["runId"] == running["run"]["runId"]]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert events[1]["outputs"] == []
    assert [dataset["name"] for dataset in events[1]["inputs"]] == ["job/df"]
