"""Tests of lineage exports with hostile names: each name stays inside its quotes or element."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from clew.query.exports import render_dot, render_mermaid, render_svg
from clew.query.lineage import IndexFreshness, LineageEdge, LineageNode, LineageResult

HOSTILE_NAMES = [
    '"]; click n0 href "javascript:alert(1)" %% ',
    "a\n    n0 --> n9",
    "<img src=x onerror=alert(1)>",
    "</text></svg><script>alert(1)</script>",
    '\\" ]; evil [label="x',
    "nul \0 and surrogate \ud800",
    "`markdown`",
]


def make_lineage(name: str) -> LineageResult:
    start, end = f"dataset:ns:{name}", "job:ns:load"
    nodes = (LineageNode(start, "dataset", "ns", name, 0), LineageNode(end, "job", name, "load", 1))
    edges = (LineageEdge(start, end, "DIRECT", subtype=name),)
    return LineageResult(start, "downstream", nodes, edges, is_truncated=False, indexed_up_to=IndexFreshness(0, ""))


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_mermaid(name: str) -> None:
    lines = render_mermaid(make_lineage(name)).splitlines()
    assert len(lines) == 4
    assert [line.count('"') for line in lines] == [0, 2, 2, 0]
    assert not set("<>`") & set("".join(lines).replace("-->", ""))


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_graphviz(name: str) -> None:
    lines = render_dot(make_lineage(name)).splitlines()
    assert len(lines) == 7
    # Without the quoted strings, only the syntax of the export is left.
    syntax = [re.sub(r'"(?:[^"\\]|\\.)*"', "", line).strip() for line in lines[3:6]]
    assert syntax == ["[label=];", "[label=, shape=ellipse];", "->  [label=];"]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_svg(name: str) -> None:
    root = ET.fromstring(render_svg(make_lineage(name)))
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "style", "path", "title", "g", "rect", "text"}
