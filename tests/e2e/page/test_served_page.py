"""Tests of the served page: the latest run, another run, no index and no server.

This server has runs only, so the request for changes since the previous run fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from playwright.sync_api import Page, expect

from clew.data_dir import IndexLocation
from clew.index.writer import IndexWriter
from clew.query.model import LineageStep, NotebookRun, SessionSummary
from clew.query.names import UnknownNameError

pytestmark = pytest.mark.browser
OpenPage = Callable[..., Page]
ServeRuns = Callable[[IndexLocation], AbstractContextManager[str]]


class TwoRuns:
    """Queries on the sample run and on an earlier run of another notebook."""

    def __init__(self, run: NotebookRun) -> None:
        self._runs = {r.session_id: r for r in (run, structs.replace(run, session_id="0ld00000", notebook="before.py"))}

    def list_sessions(self) -> list[SessionSummary]:
        return [
            SessionSummary(r.session_id, r.notebook, r.state, r.started_at, r.ended_at, 12, 1)
            for r in self._runs.values()
        ]

    def find_session(self) -> NotebookRun:
        return next(iter(self._runs.values()))

    def get_session(self, session_id: str) -> NotebookRun:
        if session_id not in self._runs:
            raise UnknownNameError.of("notebook session", session_id, self._runs)
        return self._runs[session_id]

    def trace_column(self, column: str) -> LineageStep:
        raise NotImplementedError(column)


@pytest.fixture
def url(
    serve_runs: ServeRuns, sample: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    monkeypatch.setattr("clew.api.v2.operation.LineageService", lambda *_: TwoRuns(sample["orders_run"]()))
    with IndexWriter(tmp_path / "index.sqlite"), serve_runs(tmp_path / "index.sqlite") as address:
        yield address


def test_first_screen_is_the_latest_run(open_page: OpenPage, url: str) -> None:
    page = open_page(url, check_console=False)
    expect(page.get_by_role("heading", name="orders.py")).to_be_visible()
    column = page.get_by_role("button", name="country string, column of customers.csv")
    column.hover()
    expect(column).to_have_attribute("data-highlight", "direct")
    expect(page.get_by_test_id("cell").locator("p[data-highlight=direct]").first).to_contain_text("customers.csv")


def test_selected_run_is_in_the_url(open_page: OpenPage, url: str) -> None:
    page = open_page(url, check_console=False)
    page.get_by_role("combobox", name="Choose a run").select_option("0ld00000")
    expect(page.get_by_role("heading", name="before.py")).to_be_visible()
    expect(open_page(page.url, check_console=False).get_by_role("heading", name="before.py")).to_be_visible()


def test_unknown_run_shows_an_error(open_page: OpenPage, url: str) -> None:
    page = open_page(f"{url}#/run/deadbeef", check_console=False)
    expect(page.get_by_role("alert")).to_contain_text("There is no notebook session 'deadbeef'.")


def test_missing_index_shows_a_hint(open_page: OpenPage, serve_runs: ServeRuns, tmp_path: Path) -> None:
    with serve_runs(tmp_path / "index.sqlite") as address:
        page = open_page(address, check_console=False)
        expect(page.get_by_role("alert")).to_contain_text("There is no index")
        expect(page.get_by_role("alert")).to_contain_text("clew demo")


def test_unreachable_server_shows_an_error(open_page: OpenPage, url: str) -> None:
    page = open_page(url, check_console=False)
    page.route("**/api/**", lambda route: route.abort())
    page.get_by_role("combobox", name="Choose a run").select_option("0ld00000")
    expect(page.get_by_role("alert")).to_contain_text("The server is not responding.")


def test_page_loads_only_from_its_own_origin(open_page: OpenPage, url: str) -> None:
    page = open_page(url, check_console=False)
    hosts = page.evaluate("[...new Set(performance.getEntriesByType('resource').map((e) => new URL(e.name).origin))]")
    assert hosts == [url.rstrip("/")]
