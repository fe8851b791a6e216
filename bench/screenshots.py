"""The pictures of the page in the README and the docs, taken anew from the browser tests' home.

python -m bench.screenshots
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlencode

from bench.browser import browser, fill_shop, served

from clew.data_dir import DataDir
from clew.query.pages.graph import GraphNodeRef
from clew.query.pages.lists import EntityName

IMAGES = Path(__file__).parents[1] / "docs" / "images"
_WAREHOUSE = "postgres://wh:5432"
_MARGIN = {"namespace": _WAREHOUSE, "name": "finance.margin"}
_NODE = GraphNodeRef("dataset", EntityName(_WAREHOUSE, "finance.margin")).id
Scheme = Literal["light", "dark"]
SHOTS: dict[str, tuple[str, Scheme]] = {
    "run-light": ("", "light"),
    "run-dark": ("", "dark"),
    "lineage-light": (f"#/lineage?{urlencode({'node': _NODE, 'column': 'margin_pct'})}", "light"),
    "lineage-dark": (f"#/lineage?{urlencode({'node': _NODE, 'column': 'margin_pct'})}", "dark"),
    "dataset": (f"#/dataset?{urlencode(_MARGIN)}", "light"),
}


def main() -> None:
    """Write them all."""
    with _home() as home, browser() as opened:
        fill_shop(home)
        with served(home) as url:
            for name, (place, scheme) in SHOTS.items():
                page = opened.new_page(viewport={"width": 1360, "height": 780}, color_scheme=scheme)
                page.goto(f"{url}{place}")
                page.wait_for_selector("main > :not([aria-busy])")
                page.wait_for_load_state("networkidle")
                page.screenshot(path=IMAGES / f"{name}.png")
                page.close()


@contextmanager
def _home() -> Iterator[DataDir]:
    """A home whose path tells nothing of the machine: it stands in the pictures."""
    folder = Path(tempfile.gettempdir()) / "shop"
    folder.mkdir()
    try:
        yield DataDir(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
