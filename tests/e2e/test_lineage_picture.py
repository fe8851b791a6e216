"""Tests of the frame lineage widget in a notebook that marimo runs and exports."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

NOTEBOOK = """
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


def test_marimo_exports_the_widget_with_a_reactive_value(tmp_path: Path) -> None:
    notebook, page, home = tmp_path / "book.py", tmp_path / "book.html", tmp_path / "home"
    notebook.write_text(NOTEBOOK)
    command = [sys.executable, "-m", "marimo", "export", "html", str(notebook), "-o", str(page)]
    # Otherwise the capture is written to the home of the user who runs the tests.
    environment = {**os.environ, "CLEW_HOME": str(home)}
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert len(list((home / "streams").iterdir())) == 1
    exported_html = page.read_text(encoding="utf-8")
    assert "marimo-anywidget" in exported_html
    assert "links in the widget: 3, selected: {}" in html.unescape(exported_html)
    assert re.search(r"data-frame=[^>]{1,20}sold", html.unescape(json.loads(json.dumps(exported_html))))
