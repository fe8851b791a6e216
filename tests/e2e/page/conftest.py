"""Fixtures of browser tests: the browser, exported pages and served pages."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.browser import serve_app
from playwright.sync_api import Browser, Page, expect, sync_playwright

from clew.api.app import create_app
from clew.api.static_files import render_run_page
from clew.api.v2.routes import operation_routes
from clew.cli.serving import build_read_app
from clew.data_dir import DataDir, IndexLocation
from clew.query.context import QueryResources
from clew.query.pages.run_page_model import RunPage

SAMPLE = runpy.run_path(str(Path(__file__).parent / "orders_run.py"))
SHOP = runpy.run_path(str(Path(__file__).parent / "shop.py"))
OpenPage = Callable[..., Page]
# Servers share the cores with other tests.
_TIMEOUT_MS = 20_000
expect.set_options(timeout=_TIMEOUT_MS)


@pytest.fixture(scope="session")
def sample() -> dict[str, Any]:
    """Return the namespace of the sample run's module."""
    return SAMPLE


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    # Chromium's sandbox does not start for root, the usual user in a container.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium_browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield chromium_browser
        chromium_browser.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Return a function that opens a URL; at teardown, no page may have logged an error."""
    errors: list[str] = []
    pages: list[Page] = []

    def open_url(url: str, *, check_console: bool = True, **settings: Any) -> Page:
        page = browser.new_page(**{"viewport": {"width": 1360, "height": 900}, "locale": "en-GB", **settings})
        page.set_default_timeout(_TIMEOUT_MS)
        if check_console:
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda exception: errors.append(str(exception)))
        pages.append(page)
        page.goto(url)
        page.wait_for_selector("main > :not([aria-busy])")
        return page

    yield open_url
    for page in pages:
        page.close()
    assert errors == []


@pytest.fixture
def export_page(tmp_path: Path) -> Callable[[RunPage], str]:
    """Return a function that writes a page to a file and returns its URL."""

    def write(page: RunPage) -> str:
        path = tmp_path / "run.html"
        path.write_text(render_run_page(page), encoding="utf-8")
        return path.as_uri()

    return write


@pytest.fixture
def orders_url(export_page: Callable[[RunPage], str]) -> str:
    """Return the URL of the sample run's page."""
    return export_page(SAMPLE["orders_page"]())


@pytest.fixture(scope="session")
def shop_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the sample data directory and return its URL."""
    data_dir = DataDir(tmp_path_factory.mktemp("shop"))
    SHOP["fill"](data_dir)
    with serve_app(build_read_app(data_dir)) as address:
        yield address


@contextmanager
def serve_operations(index: IndexLocation) -> Iterator[str]:
    """Serve only the public API of an index, without the pages of other entities."""
    with QueryResources(index) as resources, serve_app(create_app(operation_routes(resources))) as address:
        yield address


@pytest.fixture(scope="session")
def serve_runs() -> Callable[[IndexLocation], Any]:
    return serve_operations


@pytest.fixture
def serve_home() -> Callable[[DataDir], AbstractContextManager[str]]:
    """Return a function that serves a data directory."""
    return lambda home: serve_app(build_read_app(home))


@pytest.fixture(scope="session")
def fill_shop() -> Callable[..., None]:
    """Return the function that fills a data directory with the sample data."""
    fill: Callable[..., None] = SHOP["fill"]
    return fill


@pytest.fixture(scope="session")
def shop_names() -> dict[str, str]:
    """Return unusual entity names by kind."""
    names: dict[str, str] = SHOP["NAMES"]
    return names
