"""A real browser, the page as a file and the page as served."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from bench.browser import serving_app
from playwright.sync_api import Browser, Page, sync_playwright

from clew.api.app import create_app
from clew.api.static_files import render_run_page
from clew.api.v2.notebook_runs import OpenRunSource
from clew.cli.serving import build_read_app
from clew.data_dir import DataDir
from clew.query.pages.run_page_model import RunPage

SAMPLE = runpy.run_path(str(Path(__file__).parent / "orders_run.py"))
SHOP = runpy.run_path(str(Path(__file__).parent / "shop.py"))
Open = Callable[..., Page]


@pytest.fixture(scope="session")
def sample() -> dict[str, Any]:
    """The names of the sample run's module."""
    return SAMPLE


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    # Chromium's sandbox does not start for root, which is who runs tests in a container.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Open]:
    """Open a URL; at the end, no page may have said that something went wrong."""
    complaints: list[str] = []
    pages: list[Page] = []

    def opened(url: str, *, is_whole: bool = True, **settings: Any) -> Page:
        page = browser.new_page(**{"viewport": {"width": 1360, "height": 900}, "locale": "en-GB", **settings})
        page.set_default_timeout(10_000)
        if is_whole:
            page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        pages.append(page)
        page.goto(url)
        page.wait_for_selector("main > :not([aria-busy])")
        return page

    yield opened
    for page in pages:
        page.close()
    assert complaints == []


@pytest.fixture
def exported(tmp_path: Path) -> Callable[[RunPage], str]:
    """Write a page to a file and give its URL."""

    def write(page: RunPage) -> str:
        path = tmp_path / "run.html"
        path.write_text(render_run_page(page), encoding="utf-8")
        return path.as_uri()

    return write


@pytest.fixture
def orders(exported: Callable[[RunPage], str]) -> str:
    """The URL of the sample run's page."""
    return exported(SAMPLE["orders_page"]())


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a page with a little of everything: one home, filled once."""
    home = DataDir(tmp_path_factory.mktemp("shop"))
    SHOP["fill"](home)
    with serving_app(build_read_app(home)) as address:
        yield address


def served(open_source: OpenRunSource) -> AbstractContextManager[str]:
    """The page of runs alone, from whatever gives them."""
    return serving_app(create_app(open_source))


@pytest.fixture(scope="session")
def serving() -> Callable[[OpenRunSource], Any]:
    return served


@pytest.fixture
def serving_home() -> Callable[[DataDir], AbstractContextManager[str]]:
    """Serve all of the page over a home."""
    return lambda home: serving_app(build_read_app(home))


@pytest.fixture(scope="session")
def fill_shop() -> Callable[..., None]:
    """Fill a home of one's own."""
    fill: Callable[..., None] = SHOP["fill"]
    return fill


@pytest.fixture(scope="session")
def shop_names() -> dict[str, str]:
    """Names that try a page, by what is odd about them."""
    names: dict[str, str] = SHOP["NAMES"]
    return names
