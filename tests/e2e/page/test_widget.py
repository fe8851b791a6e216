"""Tests of the notebook widget in a real browser."""

from __future__ import annotations

import json
from importlib.resources import files

import msgspec
import pytest
from playwright.sync_api import Browser

from clew.display.graph import FrameGraph, FrameLink, FrameNode, render_frame_svg

pytestmark = pytest.mark.browser

GRAPH = FrameGraph(
    nodes=(
        FrameNode("sold", "frame", "assignment", 2, ("qty", "amount")),
        FrameNode("orders", "frame", None, 2, ("price", "qty")),
    ),
    links=(
        FrameLink(1, "price", 0, "amount", "DIRECT", "TRANSFORMATION", is_certain=True),
        FrameLink(1, "qty", 0, "qty", "DIRECT", "IDENTITY", is_certain=True),
        FrameLink(1, "qty", 0, None, "INDIRECT", "FILTER", is_certain=True),
    ),
)
# Minimal anywidget model: get, set, save and change listeners.
NOTEBOOK = """
const traits = {traits};
const listeners = {{}};
window.saved = [];
const model = {{
  get: (name) => traits[name],
  set: (name, value) => {{ traits[name] = value; (listeners[`change:${{name}}`] || []).forEach((call) => call()); }},
  save_changes: () => window.saved.push({{ ...traits.selected }}),
  on: (name, call) => (listeners[name] = [...(listeners[name] || []), call]),
  off: () => {{}},
}};
widget.render({{ model, el: document.getElementById("here") }});
"""


def test_click_on_a_column_selects_it_and_highlights_its_path(browser: Browser) -> None:
    code = files("clew.display").joinpath("widget.js").read_text(encoding="utf-8")
    traits = {"svg": render_frame_svg(GRAPH), "links": msgspec.to_builtins(GRAPH.links), "selected": {}}
    module = code.replace("export default", "const widget =") + NOTEBOOK.format(traits=json.dumps(traits))
    page = browser.new_page()
    page.set_content('<div id="here"></div>')
    page.add_script_tag(content=module, type="module")
    page.click('.row[data-frame="sold"][data-column="amount"] text')
    assert page.evaluate("saved") == [{"node": 0, "frame": "sold", "column": "amount"}]
    assert page.eval_on_selector_all("path.on", "paths => paths.map(path => path.dataset.link)") == ["0", "2"]
    assert sorted(page.eval_on_selector_all(".row.on", "rows => rows.map(row => row.dataset.column)")) == [
        "amount",
        "price",
    ]
    page.click("svg .title")
    assert page.evaluate("saved")[1] == {}
    page.close()
