"""Take the screenshots of README and docs, with the data directory of the browser tests.

python -m bench.screenshots
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from bench.browser import fill_shop, open_browser, serve_page
from bench.notebooks import write_notebook
from playwright.sync_api import Browser

from clew.data_dir import DataDir
from clew.query.graph.nodes import Node
from clew.query.pages.graph import format_node_id

IMAGES = Path(__file__).parents[1] / "docs" / "images"
_WAREHOUSE = "postgres://wh:5432"
_DATASET = {"namespace": _WAREHOUSE, "name": "finance.margin"}
_NODE_ID = format_node_id(Node("dataset", _WAREHOUSE, "finance.margin"))
ColorScheme = Literal["light", "dark"]
SCREENSHOTS: dict[str, tuple[str, ColorScheme]] = {
    "run-light": ("", "light"),
    "run-dark": ("", "dark"),
    "lineage-light": (f"#/lineage?{urlencode({'node': _NODE_ID, 'column': 'margin_pct'})}", "light"),
    "lineage-dark": (f"#/lineage?{urlencode({'node': _NODE_ID, 'column': 'margin_pct'})}", "dark"),
    "dataset": (f"#/dataset?{urlencode(_DATASET)}", "light"),
}


# Of a notebook with 59 cells.
NOTEBOOK_SCREENSHOTS: dict[str, tuple[str, ColorScheme]] = {"notebook": ("", "light")}


def main() -> None:
    """Write all screenshots."""
    with open_browser() as chromium:
        for fill, screenshots in ((fill_shop, SCREENSHOTS), (_run_notebook, NOTEBOOK_SCREENSHOTS)):
            with _temporary_home() as home:
                fill(home)
                with serve_page(home) as url:
                    for name, (fragment, scheme) in screenshots.items():
                        _take_screenshot(chromium, f"{url}{fragment}", scheme, IMAGES / f"{name}.png")


def _take_screenshot(chromium: Browser, url: str, scheme: ColorScheme, path: Path) -> None:
    page = chromium.new_page(viewport={"width": 1360, "height": 780}, color_scheme=scheme)
    page.goto(url)
    page.wait_for_selector("main > :not([aria-busy])")
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path)
    page.close()


def _run_notebook(home: DataDir) -> None:
    """Run a notebook of 59 cells under capture, and ingest its events."""
    notebook = home.root / "rides.py"
    write_notebook(notebook, "polars")
    for arguments in (("run", "--home", home.root, notebook), ("pipeline", "run", "--home", home.root)):
        subprocess.run([sys.executable, "-m", "clew", *arguments], cwd=home.root, check=True)


@contextmanager
def _temporary_home() -> Iterator[DataDir]:
    """Create a data directory with a neutral path, because it is visible in screenshots."""
    folder = Path(tempfile.gettempdir()) / "shop"
    folder.mkdir()
    try:
        yield DataDir(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
