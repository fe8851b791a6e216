"""Every way in which marimo runs a notebook: each cell is told, however it came to run."""

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
SECONDS = 60
SECONDS_TO_LEAVE = 15
PATH = os.pathsep.join((str(ROOT / ".tools" / "uv" / "bin"), os.environ.get("PATH", "")))
ENDS = {
    "setup": "cell_execution_end",
    "waits": "cell_execution_end",
    "stops": "cell_execution_end",
    "fails": "cell_execution_error",
    "goes_on": "cell_execution_end",
}
OPERATIONS = [("setup", "DataFrame"), ("waits", "__getitem__"), ("goes_on", "assign")]

TESTS = """
import marimo
app = marimo.App()

with app.setup:
    import pandas as pd

@app.cell
def test_doubles():
    doubled = pd.DataFrame({"a": [1, 2]}).assign(b=lambda d: d["a"] * 2)
    assert doubled["b"].sum() == 6
    return

@app.cell
def test_fails():
    assert pd.DataFrame({"a": [1]})["a"].sum() == 2
    return
"""


def told(folder: Path, stream: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / stream).read_text().splitlines()]


def ends(folder: Path) -> dict[str, str]:
    return {event["cell_name"]: event["event_type"] for event in told(folder, RUNTIME)}


class Server:
    """A marimo server under capture, and what a browser would say to it."""

    def __init__(self, port: int) -> None:
        self.port = port

    @contextmanager
    def session(self, name: str) -> Iterator[Any]:
        """Open the notebook, as a browser's tab does."""
        with connect(f"ws://localhost:{self.port}/ws?session_id={name}", max_size=None) as socket_:
            yield socket_

    def post(self, name: str, path: str, **body: Any) -> None:
        request = urllib.request.Request(
            f"http://localhost:{self.port}/api/kernel/{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "Marimo-Session-Id": name},
        )
        urllib.request.urlopen(request, timeout=SECONDS).close()

    @staticmethod
    def wait_for(tab: Any, operation: str) -> None:
        while json.loads(tab.recv(timeout=SECONDS)).get("op") != operation:
            pass


@contextmanager
def serving(mode: str, notebook: Path) -> Iterator[Server]:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    marimo = ["marimo", mode, str(notebook), "--headless", "--no-token", "--no-skew-protection", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "clew", "run", "--out", str(notebook.parent / "streams"), "--", *marimo],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _wait_until_it_listens(port, process)
        yield Server(port)
    finally:
        # As a terminal does: Ctrl-C reaches every process of the group.
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(SECONDS_TO_LEAVE)
        except subprocess.TimeoutExpired:
            _terminate_server_of(process)
            process.wait(SECONDS)


def _terminate_server_of(clew_run: subprocess.Popen[bytes]) -> None:
    """End marimo's server: in one ending of a hundred, captured or not, its kernel never hears that it should stop."""
    for child in Path(f"/proc/{clew_run.pid}/task/{clew_run.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGTERM)


def _wait_until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    pytest.fail("marimo's server did not start")


@pytest.fixture
def notebook(tmp_path: Path, book_text: str) -> Path:
    path = tmp_path / "book.py"
    path.write_text(book_text)
    return path


def test_edit(notebook: Path) -> None:
    with serving("edit", notebook) as server, server.session("one") as tab:
        server.wait_for(tab, "kernel-ready")
        server.post("one", "instantiate", objectIds=[], values=[], autoRun=True)
        server.wait_for(tab, "completed-run")
    streams = notebook.parent / "streams"
    assert ends(streams) == ENDS
    assert [(event["cell_name"], event["operation_method"]) for event in told(streams, DATAFRAME)] == OPERATIONS


def test_run_keeps_visitors_apart(notebook: Path) -> None:
    with serving("run", notebook) as server, server.session("one") as first, server.session("two") as second:
        for tab in (first, second):
            server.wait_for(tab, "completed-run")
    streams = notebook.parent / "streams"
    sessions = {event["session_id"] for event in told(streams, RUNTIME)}
    assert len(sessions) == 2
    for session in sessions:
        operations = [event for event in told(streams, DATAFRAME) if event["session_id"] == session]
        assert [(event["cell_name"], event["operation_method"]) for event in operations] == OPERATIONS
    assert ends(streams) == ENDS


def test_an_interrupted_cell(tmp_path: Path) -> None:
    (tmp_path / "book.py").write_text(
        "import marimo\napp = marimo.App()\n\n@app.cell\ndef endless():\n    import time\n"
        "    print('be' + 'gun', flush=True)\n    while True:\n        time.sleep(0.01)\n    return\n"
    )
    with serving("edit", tmp_path / "book.py") as server, server.session("one") as tab:
        server.wait_for(tab, "kernel-ready")
        server.post("one", "instantiate", objectIds=[], values=[], autoRun=True)
        while "begun" not in tab.recv(timeout=SECONDS):
            pass
        server.post("one", "interrupt")
        server.wait_for(tab, "completed-run")
    (end,) = [event for event in told(tmp_path / "streams", RUNTIME) if event["event_type"] != "cell_execution_start"]
    assert end["event_type"] == "cell_execution_error"
    assert end["error_info"]["error_type"] in ("MarimoInterrupt", "KeyboardInterrupt")


def captured(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "clew", "run", "--out", "streams", "--", *arguments],
        cwd=cwd,
        # A notebook asks for these to know whether it is being tested.
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "PATH": PATH,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * SECONDS,
    )


def test_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_book.py").write_text(TESTS)
    ended = captured("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_book.py", cwd=tmp_path)
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout + ended.stderr
    cells = told(tmp_path / "streams", RUNTIME)
    assert [event["event_type"] for event in cells if event["event_type"] != "cell_execution_start"].count(
        "cell_execution_error"
    ) == 1
    methods = [event["operation_method"] for event in told(tmp_path / "streams", DATAFRAME)]
    assert "assign" in methods


def test_sandbox(tmp_path: Path, book_text: str) -> None:
    """The sandbox has its own environment: clew reaches it by the path alone."""
    if shutil.which("uv", path=PATH) is None:
        pytest.skip("uv was not found")
    header = '# /// script\n# requires-python = ">=3.11"\n# dependencies = ["marimo", "pandas"]\n# ///\n'
    (tmp_path / "book.py").write_text(header + book_text)
    ended = captured("marimo", "-y", "export", "html", "--sandbox", "book.py", "-o", "book.html", cwd=tmp_path)
    if not (tmp_path / "streams" / RUNTIME).is_file() and "error" in ended.stderr.lower():
        pytest.skip(f"the sandbox could not be made: {ended.stderr[-300:]}")
    assert ends(tmp_path / "streams") == ENDS
