"""The picture of a frame's lineage, in a notebook that marimo itself runs and exports."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

BOOK = """
import marimo
app = marimo.App()

@app.cell
def frames():
    import clew
    clew.track()
    import marimo as mo
    import pandas as pd
    orders = pd.DataFrame({"price": [1.0, 2.0], "qty": [3, 4]})
    sold = orders[orders["qty"] > 3]
    sold["amount"] = sold["price"] * sold["qty"]
    return clew, mo, orders, sold

@app.cell
def picture(clew, sold):
    clew.lineage(sold)
    return

@app.cell
def reactive(clew, mo, sold):
    chosen = mo.ui.anywidget(clew.lineage(sold, column="amount").widget())
    return (chosen,)

@app.cell
def value(chosen, mo):
    mo.md(f"links in the widget: {len(chosen.value['links'])}, selected: {chosen.value['selected']}")
    return

if __name__ == "__main__":
    app.run()
"""


def test_marimo_shows_the_widget_and_its_value_is_reactive(tmp_path: Path) -> None:
    notebook, page, home = tmp_path / "book.py", tmp_path / "book.html", tmp_path / "home"
    notebook.write_text(BOOK)
    command = [sys.executable, "-m", "marimo", "export", "html", str(notebook), "-o", str(page)]
    # Else it is captured into the home of whoever runs the tests.
    environment = {**os.environ, "CLEW_HOME": str(home)}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300, env=environment
    )
    assert ended.returncode == 0, ended.stderr
    assert len(list((home / "streams").iterdir())) == 1
    written = page.read_text(encoding="utf-8")
    assert "marimo-anywidget" in written
    assert "links in the widget: 3, selected: {}" in html.unescape(written)
    assert re.search(r"data-frame=[^>]{1,20}sold", html.unescape(json.loads(json.dumps(written))))
