"""The kernel's log becomes the three streams, whoever expands it, in however many steps, and only once."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from clew.capture.diagnostics import error_counts
from clew.capture.emit.files import FILES, STATE_FOLDER, logs_in
from clew.capture.emit.worker import LogExpander, expand_abandoned, expand_logs
from clew.capture.environments.cell_runner import execution_context, open_session
from clew.capture.environments.session import Cell, Session

pytestmark = pytest.mark.slow

CELLS = ("df = pd.DataFrame({'a': [1, 2], 'b': [3, 4]})", "df['c'] = df['a'] * 2\nout = df[df['b'] > 3]", "out['nope']")

Write = Callable[..., Session]


@pytest.fixture
def write_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Run cells of a session that stays open, with nobody to expand its log."""
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


def streams_in(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).exists()}


def cut(log: bytes, lines: int) -> bytes:
    return b"".join(log.splitlines(keepends=True)[:lines])


@pytest.fixture
def log(write_cells: Write, tmp_path: Path) -> Path:
    """The log of a session that was killed after its last cell."""
    write_cells(*CELLS)
    (path,) = logs_in(tmp_path / "out")
    return Path(shutil.copy(path, tmp_path))


def folder_with(log: bytes, folder: Path) -> Path:
    (folder / STATE_FOLDER).mkdir(parents=True, exist_ok=True)
    (folder / STATE_FOLDER / "s.log").write_bytes(log)
    return folder


def test_nothing_but_the_streams_is_left(log: Path, tmp_path: Path) -> None:
    folder = folder_with(log.read_bytes(), tmp_path / "whole")
    expand_logs(folder)
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert error_counts() == {}


def test_however_it_is_cut_the_bytes_are_the_same(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = log.read_bytes()
    expand_logs(folder_with(whole, tmp_path / "whole"))
    expected = streams_in(tmp_path / "whole")
    # The kernel lives until the last step.
    monkeypatch.setattr("clew.capture.emit.worker.is_abandoned", lambda path: path.stat().st_size == len(whole))
    for lines in range(1, whole.count(b"\n")):
        folder = folder_with(cut(whole, lines) + b'["end",17', tmp_path / f"{lines}")
        LogExpander(folder).poll()
        # Whoever expanded the first part died while it appended more.
        with (folder / FILES[1]).open("ab") as file:
            file.write(b'{"eventType": "COM')
        expand_logs(folder_with(whole, folder))
        assert streams_in(folder) == expected


def test_what_was_there_before_stays(log: Path, tmp_path: Path) -> None:
    folder = folder_with(log.read_bytes(), tmp_path / "old")
    (folder / FILES[0]).write_text('{"event_type": "cell_execution_start"}\n')
    expand_logs(folder)
    assert (folder / FILES[0]).read_text().startswith('{"event_type": "cell_execution_start"}\n')


def test_an_end_that_was_written_is_not_written_again(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_with(log.read_bytes(), tmp_path / "one")

    def dies(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            expand_logs(folder)
    written = streams_in(folder)
    expand_logs(folder)
    assert streams_in(folder) == written
    assert not logs_in(folder)


def test_a_session_at_work_is_left_to_its_worker(write_cells: Write, tmp_path: Path) -> None:
    session = write_cells(CELLS[0])
    expand_abandoned(tmp_path)
    assert not streams_in(tmp_path / "out")
    session.end()
    assert set(streams_in(tmp_path / "out")) == set(FILES)


def test_sessions_that_share_a_folder_do_not_disturb_each_other(write_cells: Write, tmp_path: Path) -> None:
    first, second = write_cells(CELLS[0]), write_cells(CELLS[0])
    write_cells(CELLS[1], session=first)
    first.end()
    write_cells(CELLS[1], session=second)
    second.end()
    events = [*map(msgspec.json.decode, (tmp_path / "out" / FILES[2]).read_bytes().splitlines())]
    told = [(event["session_id"], event["operation_method"]) for event in events]
    for session in (first, second):
        assert [method for one, method in told if one == session.session_id] == [
            "DataFrame",
            "__setitem__",
            "__getitem__",
        ]


def test_a_line_that_a_full_disk_cut_off_costs_itself_alone(log: Path, tmp_path: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    torn = b"".join([*lines[:2], lines[2][:40], b"\n", *lines[3:]])
    folder = folder_with(torn, tmp_path / "torn")
    expand_logs(folder)
    ends = [*map(msgspec.json.decode, (folder / FILES[1]).read_bytes().splitlines())]
    assert ends[-1]["eventType"] == "ABORT"


def test_a_disk_that_fills_up_meanwhile_costs_nothing(log: Path, tmp_path: Path) -> None:
    expand_logs(folder_with(log.read_bytes(), tmp_path / "whole"))
    folder = folder_with(log.read_bytes(), tmp_path / "full")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(log.read_bytes()), hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            expand_logs(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    expand_logs(folder)
    assert streams_in(folder) == streams_in(tmp_path / "whole")


def test_a_loop_that_goes_on_after_it_was_told_is_told_once(write_cells: Write, tmp_path: Path) -> None:
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
    told = msgspec.json.decode((tmp_path / "out" / FILES[2]).read_bytes().splitlines()[-1])
    assert (told["operation_method"], told["count"]) == ("head", rounds)
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


def test_the_death_of_a_kernel_is_seen_though_its_child_lives_on(tmp_path: Path) -> None:
    environment = {**os.environ, "CLEW_OUT": str(tmp_path / "out")}
    with subprocess.Popen([sys.executable, "-c", FORKED], env=environment, stdin=subprocess.PIPE) as kernel:
        assert kernel.wait(60) == -signal.SIGKILL
        expand_abandoned(tmp_path)
        assert {path.name for path in (tmp_path / "out").iterdir()} == set(FILES)


@pytest.mark.parametrize("worker", ["off", "on"])
def test_a_kernel_that_is_killed_leaves_whole_streams(tmp_path: Path, worker: str) -> None:
    environment = {**os.environ, "CLEW_STREAMS": str(tmp_path), "CLEW_SESSION_ID": "5e551011", "CLEW_WORKER": worker}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    expand_abandoned(tmp_path)
    events = [*map(msgspec.json.decode, (tmp_path / "5e551011" / FILES[1]).read_bytes().splitlines())]
    told = [(event["eventType"], event["job"]["name"]) for event in events]
    assert told == [
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
