"""A real browser at a real server, for what is measured of the page and for its pictures."""

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
    """The home of the browser tests: a notebook that ran twice, and two weeks of a shop's jobs."""
    fill: Callable[[DataDir], None] = runpy.run_path(str(_SHOP))["fill"]
    fill(home)


def served(home: DataDir) -> AbstractContextManager[str]:
    """The URL of the page over a home."""
    return serving_app(build_read_app(home))


@contextmanager
def serving_app(app: Starlette) -> Iterator[str]:
    """An application on a real port, for as long as it is needed; gives its URL."""
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
def browser() -> Iterator[Browser]:
    """A browser without a window."""
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        raise ClewError("No Chromium was found.", hint="`make browser` fetches one.")
    # Chromium's sandbox does not start for root, which is who runs in a container.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=arguments)
        yield opened
        opened.close()
