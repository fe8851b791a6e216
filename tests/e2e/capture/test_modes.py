"""Tests of capture in every mode in which marimo runs a notebook."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.paths import ROOT
from websockets.sync.client import connect

RUNTIME, DATAFRAME = "marimo_runtime.jsonl", "marimo_dataframe_lineage.jsonl"
TIMEOUT_SECONDS = 60
STOP_TIMEOUT_SECONDS = 15
PATH = os.pathsep.join((str(ROOT / ".tools" / "uv" / "bin"), os.environ.get("PATH", "")))
END_EVENTS = {
    "setup": "cell_execution_end",
    "waits": "cell_execution_end",
    "stops": "cell_execution_end",
    "fails": "cell_execution_error",
    "goes_on": "cell_execution_end",
}
OPERATIONS = [("setup", "DataFrame"), ("waits", "__getitem__"), ("goes_on", "assign"), ("goes_on", "sum")]

TEST_NOTEBOOK = """
import marimo
app = marimo.App()

with app.setup:
    import pandas as pd
    base = pd.DataFrame({"a": [1, 2]})

@app.function
def double(frame):
    return frame.assign(b=lambda d: d["a"] * 2)

@app.cell
def test_doubles():
    doubled = double(base)
    doubled.a = doubled.a + 1
    assert doubled["b"].sum() == 6
    doubled.head()
    return

@app.cell
def test_fails():
    assert pd.DataFrame({"a": [1]})["a"].sum() == 2
    return
"""

# Cells that are or end in an expression, also one that calls a function of another cell.
EXPRESSION_NOTEBOOK = """
import marimo
app = marimo.App()

@app.cell
def _():
    import pandas as pd
    df = pd.DataFrame({"k": ["a", "b"], "v": [1, 2]})
    return df, pd

@app.cell
def _(df):
    df.head()
    return

@app.cell
def _(df):
    # Counted from the comment.
    total = df.groupby("k").sum()
    total.sort_values("v")
    return (total,)

@app.function
def double(frame):
    return frame.assign(w=frame["v"] * 2)

@app.cell
def _(total):
    double(total)
    return

@app.cell
def _():
    def largest(frame):
        # A function of a cell that another cell calls.
        return frame.nlargest(1, "v")
    return (largest,)

@app.cell
def _(largest, total):
    [
        largest(total)
        for _ in range(1)
    ]
    return

@app.cell
def _(total):
    copied = total.copy()
    copied.v = copied.v + 1
    copied.columns = ["w"]
    copied["w"]
    return

@app.cell
def _(total):
    total.to_csv("out.csv")
    return

if __name__ == "__main__":
    app.run()
"""
EXPRESSIONS = {
    ("head", "df.head()", 1),
    ("sort_values", 'total.sort_values("v")', 3),
    ("assign", 'frame.assign(w=frame["v"] * 2)', 2),
    ("nlargest", 'frame.nlargest(1, "v")', 3),
    ("__setitem__", "copied.v = copied.v + 1", 2),
    ("columns", 'copied.columns = ["w"]', 3),
    ("to_csv", 'total.to_csv("out.csv")', 1),
}


def read_events(folder: Path, stream: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / stream).read_text().splitlines()]


def end_events(folder: Path) -> dict[str, str]:
    return {event["cell_name"]: event["event_type"] for event in read_events(folder, RUNTIME)}


class MarimoServer:
    """Client of a captured marimo server."""

    def __init__(self, port: int) -> None:
        self.port = port

    @contextmanager
    def session(self, name: str) -> Iterator[Any]:
        """Open the notebook like a browser tab."""
        with connect(f"ws://localhost:{self.port}/ws?session_id={name}", max_size=None) as socket_:
            yield socket_

    def post(self, name: str, path: str, **body: Any) -> None:
        request = urllib.request.Request(
            f"http://localhost:{self.port}/api/kernel/{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Marimo-Session-Id": name},
        )
        urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS).close()

    @staticmethod
    def wait_for(tab: Any, operation: str) -> None:
        while json.loads(tab.recv(timeout=TIMEOUT_SECONDS)).get("op") != operation:
            pass


@contextmanager
def run_server(mode: str, notebook: Path) -> Iterator[MarimoServer]:
    with socket.create_server(("localhost", 0)) as listener:
        port = listener.getsockname()[1]
    marimo = ["marimo", mode, str(notebook), "--headless", "--no-token", "--no-skew-protection", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "clew", "run", "--out", str(notebook.parent / "streams"), "--", *marimo],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd=notebook.parent,
    )
    try:
        _wait_until_listening(port, process)
        yield MarimoServer(port)
    finally:
        # Like Ctrl-C in a terminal: the signal reaches every process of the group.
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            _terminate_server(process)
            process.wait(TIMEOUT_SECONDS)


def _terminate_server(clew_run: subprocess.Popen[bytes]) -> None:
    """Terminate marimo's server: in about 1 % of runs, captured or not, its kernel misses the stop request."""
    for child in Path(f"/proc/{clew_run.pid}/task/{clew_run.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGTERM)


def _wait_until_listening(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("marimo's server did not start")


@pytest.fixture
def notebook(tmp_path: Path, notebook_source: str) -> Path:
    path = tmp_path / "book.py"
    path.write_text(notebook_source)
    return path


def test_edit_mode(notebook: Path) -> None:
    with run_server("edit", notebook) as server, server.session("one") as tab:
        server.wait_for(tab, "kernel-ready")
        server.post("one", "instantiate", objectIds=[], values=[], autoRun=True)
        server.wait_for(tab, "completed-run")
    streams = notebook.parent / "streams"
    assert end_events(streams) == END_EVENTS
    assert [(event["cell_name"], event["operation_method"]) for event in read_events(streams, DATAFRAME)] == OPERATIONS


def test_run_mode_separates_sessions(notebook: Path) -> None:
    with run_server("run", notebook) as server, server.session("one") as first, server.session("two") as second:
        for tab in (first, second):
            server.wait_for(tab, "completed-run")
    streams = notebook.parent / "streams"
    sessions = {event["session_id"] for event in read_events(streams, RUNTIME)}
    assert len(sessions) == 2
    for session in sessions:
        operations = [event for event in read_events(streams, DATAFRAME) if event["session_id"] == session]
        assert [(event["cell_name"], event["operation_method"]) for event in operations] == OPERATIONS
    assert end_events(streams) == END_EVENTS


def test_interrupted_cell_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "book.py").write_text(
        "import marimo\napp = marimo.App()\n\n@app.cell\ndef endless():\n    import time\n"
        "    print('be' + 'gun', flush=True)\n    while True:\n        time.sleep(0.01)\n    return\n"
    )
    with run_server("edit", tmp_path / "book.py") as server, server.session("one") as tab:
        server.wait_for(tab, "kernel-ready")
        server.post("one", "instantiate", objectIds=[], values=[], autoRun=True)
        while "begun" not in tab.recv(timeout=TIMEOUT_SECONDS):
            pass
        server.post("one", "interrupt")
        server.wait_for(tab, "completed-run")
    (end,) = [
        event for event in read_events(tmp_path / "streams", RUNTIME) if event["event_type"] != "cell_execution_start"
    ]
    assert end["event_type"] == "cell_execution_error"
    assert end["error_info"]["error_type"] in ("MarimoInterrupt", "KeyboardInterrupt")


def run_captured(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clew", "run", "--out", "streams", "--", *arguments],
        cwd=cwd,
        # marimo uses these to detect that a notebook is being tested.
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "PATH": PATH,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * TIMEOUT_SECONDS,
    )


@pytest.mark.parametrize("command", [("pytest",), ("python", "-m", "pytest")], ids=" ".join)
def test_pytest(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "test_book.py").write_text(TEST_NOTEBOOK)
    result = run_captured(*command, "-q", "-p", "no:cacheprovider", "test_book.py", cwd=tmp_path)
    assert "1 failed, 1 passed" in result.stdout, result.stdout + result.stderr
    cells = read_events(tmp_path / "streams", RUNTIME)
    assert [event["event_type"] for event in cells if event["event_type"] != "cell_execution_start"].count(
        "cell_execution_error"
    ) == 1
    operations = read_events(tmp_path / "streams", DATAFRAME)
    assert {(event["operation_code"], event["line"]) for event in operations} >= {
        ('pd.DataFrame({"a": [1, 2]})', 2),
        ('frame.assign(b=lambda d: d["a"] * 2)', 2),
        ("doubled.a = doubled.a + 1", 2),
        ("doubled.head()", 4),
    }


@pytest.mark.parametrize("mode", ["script", "export", "edit", "run"])
def test_operations_of_expressions_have_code_and_lines(tmp_path: Path, mode: str) -> None:
    notebook = tmp_path / "book.py"
    notebook.write_text(EXPRESSION_NOTEBOOK)
    if mode == "script":
        run_captured("python", "book.py", cwd=tmp_path)
    elif mode == "export":
        run_captured("marimo", "export", "html", "book.py", "-o", "book.html", cwd=tmp_path)
    else:
        with run_server(mode, notebook) as server, server.session("one") as tab:
            if mode == "edit":
                server.wait_for(tab, "kernel-ready")
                server.post("one", "instantiate", objectIds=[], values=[], autoRun=True)
            server.wait_for(tab, "completed-run")
    operations = read_events(tmp_path / "streams", DATAFRAME)
    located = {(event["operation_method"], event["operation_code"], event["line"]) for event in operations}
    assert located >= EXPRESSIONS
    assert all(event["operation_code"] for event in operations)


def test_sandbox(tmp_path: Path, notebook_source: str) -> None:
    """The sandbox has its own environment, which finds clew through PYTHONPATH."""
    if shutil.which("uv", path=PATH) is None:
        pytest.skip("uv was not found")
    header = '# /// script\n# requires-python = ">=3.11"\n# dependencies = ["marimo", "pandas"]\n# ///\n'
    (tmp_path / "book.py").write_text(header + notebook_source)
    result = run_captured("marimo", "-y", "export", "html", "--sandbox", "book.py", "-o", "book.html", cwd=tmp_path)
    if not (tmp_path / "streams" / RUNTIME).is_file() and "error" in result.stderr.lower():
        pytest.skip(f"the sandbox could not be created: {result.stderr[-300:]}")
    assert end_events(tmp_path / "streams") == END_EVENTS
