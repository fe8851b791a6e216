"""Fixtures of API tests: notebook runs in memory, and a minimal web build."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.paths import PAGE_TESTS

from clew.api import static_files
from clew.errors import UsageError
from clew.query.model import LineageStep, NotebookRun, SessionSummary

SAMPLE = runpy.run_path(str(PAGE_TESTS / "orders_run.py"))


class InMemoryRuns:
    """A source of runs without an index."""

    def __init__(self, runs: list[NotebookRun]) -> None:
        self._runs = runs

    def runs(self) -> list[SessionSummary]:
        return [
            SessionSummary(r.session_id, r.notebook, r.state, r.started_at, r.ended_at, len(r.cells), 1)
            for r in self._runs
        ]

    def latest_run(self) -> NotebookRun | None:
        return self._runs[0] if self._runs else None

    def run(self, session_id: str) -> NotebookRun:
        for run in self._runs:
            if run.session_id == session_id:
                return run
        raise UsageError(f"There is no notebook session {session_id!r}.", hint="There is 6ac33987.")

    def upstream(self, column: str) -> LineageStep:
        run, name = self._runs[0], column.rpartition(".")[2]
        step: LineageStep = SAMPLE["trace_upstream"](run, run.writes[0], name)
        return step


@pytest.fixture
def make_source() -> Callable[[list[NotebookRun]], Callable[[], AbstractContextManager[InMemoryRuns]]]:
    def for_runs(runs: list[NotebookRun]) -> Callable[[], AbstractContextManager[InMemoryRuns]]:
        @contextmanager
        def open_runs() -> Iterator[InMemoryRuns]:
            yield InMemoryRuns(runs)

        return open_runs

    return for_runs


@pytest.fixture(scope="session")
def sample() -> dict[str, Any]:
    """Return the namespace of the sample run's module."""
    return SAMPLE


@pytest.fixture
def web_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a minimal web build and serve it."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(
        '<!doctype html><script type="module" crossorigin src="./assets/index-1a.js"></script>'
        '<link rel="stylesheet" crossorigin href="./assets/style-2b.css">'
    )
    (folder / "assets" / "index-1a.js").write_text('document.title = "</script><!--";')
    (folder / "assets" / "style-2b.css").write_text("body { color: red }")
    monkeypatch.setattr(static_files, "STATIC", folder)
    monkeypatch.setattr("clew.api.app.STATIC", folder)
    return folder


@pytest.fixture(autouse=True)
def complete_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for the search index: on a loaded machine, the first search would answer before it is complete."""
    monkeypatch.setattr("clew.query.search_index._MAX_SYNC_REFRESH_SECONDS", 60.0)
