"""A headless browser and a local server, for page benchmarks and screenshots."""

from __future__ import annotations

import os
import runpy
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import uvicorn
from playwright.sync_api import Browser, sync_playwright
from starlette.applications import Starlette

from clew.cli.serving import build_read_app
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.server.run import listen, listener_url

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SHOP = Path(__file__).parents[1] / "tests" / "e2e" / "page" / "shop.py"


def fill_shop(home: DataDir) -> None:
    """Fill the data directory of the browser tests: a notebook with two runs, and two weeks of a shop's jobs."""
    fill: Callable[[DataDir], None] = runpy.run_path(str(_SHOP))["fill"]
    fill(home)


def serve_page(home: DataDir) -> AbstractContextManager[str]:
    """Serve the page of a data directory, and yield its URL."""
    return serve_app(build_read_app(home))


@contextmanager
def serve_app(app: Starlette) -> Iterator[str]:
    """Serve an application on a local port, and yield its URL."""
    with listen("127.0.0.1", 0) as listener:
        config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener_url(listener)
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Open a headless browser."""
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        raise ClewError("Chromium is not installed.", hint="Run `make browser` to download it.")
    # Chromium's sandbox does not start for root, the user in a container.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()
