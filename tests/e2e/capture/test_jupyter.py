"""Tests of capture in a Jupyter kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.paths import ROOT

from clew.capture.emit.worker import expand_logs

CELLS = [
    "import clew; clew.track()",
    "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})",
    "import asyncio\nawait asyncio.sleep(0)\nbig = df[df['a'] > 1]",
    "big['nope']",
    "!echo shell",
    "low = 1\nout = df.query('a > @low')\nout",
]

# Starts a kernel, runs the cells, ends the kernel by the given means and prints its output.
DRIVER = """
import json, sys
from jupyter_client.manager import start_new_kernel

manager, client = start_new_kernel()
shown = []
for cell in json.loads(sys.argv[1]):
    client.execute_interactive(cell, timeout=60, output_hook=lambda message: shown.append(message))
client.stop_channels()
manager.shutdown_kernel(now=sys.argv[2] == "kill")
print(json.dumps([message["content"] for message in shown if message["msg_type"] in ("stream", "error")]))
"""


@pytest.fixture(scope="module")
def python(make_environment: Callable[..., Path]) -> Path:
    return make_environment("pandas", "ipykernel", "jupyter_client")


@pytest.mark.parametrize("end", ["shutdown", "kill"])
def test_captures_cells_of_a_kernel(python: Path, tmp_path: Path, end: str) -> None:
    result = subprocess.run(
        [python, "-c", DRIVER, json.dumps(CELLS), end],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "CLEW_OUT": str(tmp_path / "streams"),
            "JPY_SESSION_NAME": str(tmp_path / "orders.ipynb"),
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    outputs = [content.get("text") or content["ename"] for content in json.loads(result.stdout)]
    assert [text.strip() for text in outputs] == ["KeyError", "shell"]
    expand_logs(tmp_path / "streams")

    def read_events(stream: str) -> list[dict[str, object]]:
        return [json.loads(line) for line in (tmp_path / "streams" / stream).read_text().splitlines()]

    name = "orders.ipynb"
    ends = [event for event in read_events("marimo_runtime.jsonl") if event["event_type"] != "cell_execution_start"]
    assert [(event["cell_index"], event["event_type"], event["notebook"]) for event in ends] == [
        (2, "cell_execution_end", name),
        (3, "cell_execution_end", name),
        (4, "cell_execution_error", name),
        (5, "cell_execution_end", name),
        (6, "cell_execution_end", name),
    ]
    assert [event["operation_code"] for event in read_events("marimo_dataframe_lineage.jsonl")] == [
        "pd.DataFrame({'a': [1, 2]})",
        "df[df['a'] > 1]",
        "df.query('a > @low')",
    ]


NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "# Orders"},
        {
            "cell_type": "code",
            "id": "b",
            "metadata": {},
            "source": "import pandas as pd\ndf = pd.DataFrame({'a': [1]})\nprint('hello')",
            "execution_count": None,
            "outputs": [],
        },
        {
            "cell_type": "code",
            "id": "c",
            "metadata": {},
            "source": "df.to_csv('out.csv')\ndf['nope']",
            "execution_count": None,
            "outputs": [],
        },
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python", "language": "python"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
PROGRAMS = {
    "file": ["analysis/eda.ipynb"],
    "nbconvert": ["--", "jupyter", "nbconvert", "--execute", "--to", "html", "analysis/eda.ipynb"],
    "papermill": ["--", "papermill", "analysis/eda.ipynb", "copy.ipynb"],
    "papermill module": ["--", "python", "-m", "papermill", "analysis/eda.ipynb", "copy.ipynb"],
    "execute": ["--", "jupyter", "execute", "analysis/eda.ipynb"],
}


def run_clew(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clew", "run", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.parametrize("arguments", PROGRAMS.values(), ids=PROGRAMS)
def test_runs_a_notebook_file(tmp_path: Path, arguments: list[str]) -> None:
    project = tmp_path / "shop"
    (project / ".git").mkdir(parents=True)
    (project / "analysis").mkdir()
    (project / "analysis/eda.ipynb").write_text(json.dumps(NOTEBOOK))
    result = run_clew(project, "--out", str(tmp_path / "out"), *arguments)
    assert result.returncode != 0
    assert "KeyError" in result.stderr
    if arguments == PROGRAMS["file"]:
        assert (result.returncode, result.stdout) == (1, "hello\n")
        assert json.loads((project / "analysis/eda.ipynb").read_text()) == NOTEBOOK
    events = [json.loads(line) for line in (tmp_path / "out/marimo_runtime.jsonl").read_text().splitlines()]
    assert {event["notebook"] for event in events} == {"shop/analysis/eda.ipynb"}
    operations = (tmp_path / "out/marimo_dataframe_lineage.jsonl").read_text().splitlines()
    assert [json.loads(line)["operation_method"] for line in operations] == ["DataFrame", "to_csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch.py"], "No such file: nosuch.py."),
        (["nosuch.ipynb"], "No such file: nosuch.ipynb."),
        (["nosuch"], "There is no file or command 'nosuch'."),
        (["empty.ipynb", "--option"], "A Jupyter notebook takes no arguments: --option."),
        (["broken.ipynb"], "clew: broken.ipynb is not a Jupyter notebook"),
        (["empty.ipynb"], "clew: nothing was captured"),
    ],
)
def test_explains_what_it_cannot_run(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "broken.ipynb").write_text("broken")
    (tmp_path / "empty.ipynb").write_text(json.dumps({**NOTEBOOK, "cells": []}))
    result = run_clew(tmp_path, "--home", "home", *arguments)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
