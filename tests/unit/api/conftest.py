"""A notebook's runs, held in memory, and a build of the page that is small enough to read."""

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


class RunsInMemory:
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
        hop: LineageStep = SAMPLE["trace"](run, run.writes[0], name)
        return hop


@pytest.fixture
def source_of() -> Callable[[list[NotebookRun]], Callable[[], AbstractContextManager[RunsInMemory]]]:
    def make(runs: list[NotebookRun]) -> Callable[[], AbstractContextManager[RunsInMemory]]:
        @contextmanager
        def opened() -> Iterator[RunsInMemory]:
            yield RunsInMemory(runs)

        return opened

    return make


@pytest.fixture(scope="session")
def sample() -> dict[str, Any]:
    """The names of the sample run's module."""
    return SAMPLE


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of one line, in the shape that the build leaves."""
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
