"""Tests of IPython cells: one execution per cell, also for nested cells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import copy_context
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from clew.capture.diagnostics import error_counts
from clew.capture.environments.cell_runner import end_sessions
from clew.capture.environments.ipython import attach


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("CLEW_OUT", str(tmp_path / "out"))
    monkeypatch.setenv("CLEW_WORKER", "off")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # IPython is untyped.
    shell_class: Any = InteractiveShell
    shell = shell_class(config=Config(HistoryManager={"enabled": False}), user_ns={"pd": pd})
    shell.user_ns["shell"] = shell
    # Already attached on creation: attaching again has no effect.
    attach(shell)
    yield shell
    end_sessions()


def read_stream(tmp_path: Path, stream: str) -> list[dict[str, Any]]:
    end_sessions()
    lines = (tmp_path / "out" / f"marimo_{stream}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines]


def test_cells_have_number_and_code(shell: Any, tmp_path: Path) -> None:
    for source in ("df = pd.DataFrame({'a': [1, 2]})", "df.head(1)", "big = df[df['a'] > 1]"):
        shell.run_cell(source, store_history=True)
    operations = [
        (event["cell_id"], event["operation_code"], event["output_dataframes"][0]["variable_name"])
        for event in read_stream(tmp_path, "dataframe_lineage")
    ]
    assert operations == [
        ("In[1]", "pd.DataFrame({'a': [1, 2]})", "df"),
        ("In[2]", "df.head(1)", "In[2]/dataframe_head"),
        ("In[3]", "df[df['a'] > 1]", "big"),
    ]
    assert error_counts() == {}


def test_nested_and_failing_cells(shell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("shell.run_cell('nope')\nout = pd.DataFrame({'a': [1]})", store_history=True)
    ends = [
        (event["cell_source"].splitlines()[-1], event["event_type"])
        for event in read_stream(tmp_path, "runtime")
        if event["event_type"] != "cell_execution_start"
    ]
    assert ends == [
        ("nope", "cell_execution_error"),
        ("out = pd.DataFrame({'a': [1]})", "cell_execution_end"),
    ]
    assert "NameError" in capsys.readouterr().out


def test_async_cell_ends_outside_of_its_task(shell: Any, tmp_path: Path) -> None:
    """The kernel of Jupyter triggers post_run_cell in another context."""
    source = "import asyncio\nawait asyncio.sleep(0)\nout = pd.DataFrame({'a': [1]})"
    result = copy_context().run(asyncio.run, shell.run_cell_async(source, transformed_cell=source))
    shell.events.trigger("post_run_cell", result)
    assert [event["event_type"] for event in read_stream(tmp_path, "runtime")] == [
        "cell_execution_start",
        "cell_execution_end",
    ]
    assert [event["operation_code"] for event in read_stream(tmp_path, "dataframe_lineage")] == [
        "pd.DataFrame({'a': [1]})"
    ]
    assert error_counts() == {}
