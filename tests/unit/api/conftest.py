"""Fixtures of API tests: routes of notebook runs in memory, and a minimal web build."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from tests.support.paths import PAGE_TESTS

from clew.api import static_files
from clew.api.v2.routes import operation_routes
from clew.errors import UsageError
from clew.index.writer import IndexWriter
from clew.query.context import QueryResources
from clew.query.model import LineageStep, NotebookRun, SessionSummary

SAMPLE = runpy.run_path(str(PAGE_TESTS / "orders_run.py"))


class InMemoryRuns:
    """The queries of `LineageService` on notebook runs, without events in the index."""

    def __init__(self, runs: list[NotebookRun]) -> None:
        self._runs = runs

    def list_sessions(self) -> list[SessionSummary]:
        return [
            SessionSummary(r.session_id, r.notebook, r.state, r.started_at, r.ended_at, len(r.cells), 1)
            for r in self._runs
        ]

    def find_session(self) -> NotebookRun:
        return self._runs[0]

    def get_session(self, session_id: str) -> NotebookRun:
        for run in self._runs:
            if run.session_id == session_id:
                return run
        raise UsageError(f"There is no notebook session {session_id!r}.", hint="There is 6ac33987.")

    def trace_column(self, column: str) -> LineageStep:
        run, name = self._runs[0], column.rpartition(".")[2]
        step: LineageStep = SAMPLE["trace_upstream"](run, run.writes[0], name)
        return step


@pytest.fixture
def make_routes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[list[NotebookRun]], list[Route]]]:
    """Return a function that creates the routes of `/api/v2` with the given notebook runs."""
    with IndexWriter(tmp_path / "index.sqlite"), QueryResources(tmp_path / "index.sqlite") as resources:

        def for_runs(runs: list[NotebookRun]) -> list[Route]:
            monkeypatch.setattr("clew.api.v2.operation.LineageService", lambda *_: InMemoryRuns(runs))
            return operation_routes(resources)

        yield for_runs


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
