"""The page as a server gives it: the last run, another one, none, and no server at all.

This one knows runs and nothing else, so the page is not whole: it misses what changed since the run before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from playwright.sync_api import Page, expect

from clew.api.v2.notebook_runs import OpenRunSource
from clew.query.model import LineageStep, NotebookRun, SessionSummary
from clew.query.names import UnknownNameError
from clew.query.service import NotebookService

pytestmark = pytest.mark.browser
Open = Callable[..., Page]
Serving = Callable[[OpenRunSource], AbstractContextManager[str]]


class TwoRuns:
    """The sample run, and one before it of another notebook."""

    def __init__(self, run: NotebookRun) -> None:
        self._runs = {r.session_id: r for r in (run, structs.replace(run, session_id="0ld00000", notebook="before.py"))}

    def runs(self) -> list[SessionSummary]:
        return [
            SessionSummary(r.session_id, r.notebook, r.state, r.started_at, r.ended_at, 12, 1)
            for r in self._runs.values()
        ]

    def latest_run(self) -> NotebookRun | None:
        return next(iter(self._runs.values()))

    def run(self, session_id: str) -> NotebookRun:
        if session_id not in self._runs:
            raise UnknownNameError.of("notebook session", session_id, self._runs)
        return self._runs[session_id]

    def upstream(self, column: str) -> LineageStep:
        raise NotImplementedError(column)


@pytest.fixture
def url(serving: Serving, sample: dict[str, Any]) -> Iterator[str]:
    @contextmanager
    def opened() -> Iterator[TwoRuns]:
        yield TwoRuns(sample["orders_run"]())

    with serving(opened) as address:
        yield address


def test_the_first_screen_is_the_last_run(open_page: Open, url: str) -> None:
    page = open_page(url, is_whole=False)
    expect(page.get_by_role("heading", name="orders.py")).to_be_visible()
    column = page.get_by_role("button", name="country string, column of customers.csv")
    column.hover()
    expect(column).to_have_attribute("data-highlight", "direct")
    expect(page.get_by_test_id("cell").locator("p[data-highlight=direct]").first).to_contain_text("customers.csv")


def test_another_run_can_be_chosen_and_is_a_url(open_page: Open, url: str) -> None:
    page = open_page(url, is_whole=False)
    page.get_by_role("combobox", name="Choose a run").select_option("0ld00000")
    expect(page.get_by_role("heading", name="before.py")).to_be_visible()
    expect(open_page(page.url, is_whole=False).get_by_role("heading", name="before.py")).to_be_visible()


def test_an_unknown_run_is_said(open_page: Open, url: str) -> None:
    page = open_page(f"{url}#/run/deadbeef", is_whole=False)
    expect(page.get_by_role("alert")).to_contain_text("There is no notebook session 'deadbeef'.")


def test_no_index_says_what_to_do(open_page: Open, serving: Serving, tmp_path: Path) -> None:
    with serving(lambda: NotebookService(tmp_path / "index.sqlite")) as address:
        page = open_page(address, is_whole=False)
        expect(page.get_by_role("alert")).to_contain_text("There is no index")
        expect(page.get_by_role("alert")).to_contain_text("clew demo")


def test_a_server_that_is_gone_is_said(open_page: Open, url: str) -> None:
    page = open_page(url, is_whole=False)
    page.route("**/api/**", lambda route: route.abort())
    page.get_by_role("combobox", name="Choose a run").select_option("0ld00000")
    expect(page.get_by_role("alert")).to_contain_text("The server is not responding.")


def test_the_page_asks_nobody_else(open_page: Open, url: str) -> None:
    page = open_page(url, is_whole=False)
    hosts = page.evaluate("[...new Set(performance.getEntriesByType('resource').map((e) => new URL(e.name).origin))]")
    assert hosts == [url.rstrip("/")]
