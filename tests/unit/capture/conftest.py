"""Fixtures of the capture tests: capture is on, and the error counts are reset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

import clew
from clew.capture.diagnostics import reset_errors
from clew.capture.environments.cell_runner import execution_context, open_session
from clew.capture.environments.session import Cell
from clew.capture.tracking import untrack

Streams = dict[str, list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def tracking() -> Iterator[None]:
    """Enable capture during a test."""
    clew.track()
    reset_errors()
    yield
    untrack()


@pytest.fixture
def run_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Streams]:
    """Return a function that runs sources as cells of one session and returns the three streams."""
    monkeypatch.setenv("CLEW_OUT", str(tmp_path / "out"))
    monkeypatch.setenv("CLEW_WORKER", "off")
    # Names of notebooks are relative to the home directory.
    monkeypatch.setenv("HOME", str(tmp_path))

    def run(*sources: str, namespace: dict[str, Any] | None = None) -> Streams:
        session = open_session(str(tmp_path / "book.py"))
        shared: dict[str, Any] = {"pd": pd, **(namespace or {})}
        for index, source in enumerate(sources, start=1):
            code = compile(source, f"/tmp/__marimo__cell_{index}_.py", "exec")
            cell = Cell(id=f"id{index}", source=source, name=f"cell{index}", index=index)
            with execution_context(session, cell, code, shared) as execution:
                try:
                    exec(code, shared)
                except Exception as error:  # noqa: BLE001 - a cell may fail in any way
                    execution.error = error
        session.end()
        return {
            file.stem: [*map(msgspec.json.decode, file.read_bytes().splitlines())]
            for file in (tmp_path / "out").iterdir()
        }

    return run
