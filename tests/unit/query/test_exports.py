"""Tests of lineage exports with hostile names: each name stays inside its quotes or element."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs

from clew.query.exports import render_dot, render_mermaid, render_svg
from clew.query.lineage import IndexFreshness, LineageEdge, LineageNode, LineageResult
from clew.reports.html import render_page

HOSTILE_NAMES = [
    '"]; click n0 href "javascript:alert(1)" %% ',
    "a\n    n0 --> n9",
    "<img src=x onerror=alert(1)>",
    "</text></svg><script>alert(1)</script>",
    '\\" ]; evil [label="x',
    "nul \0 and surrogate \ud800",
    "`markdown`",
    "x| n9 --> n8 |y",
    "line\u2028separator\x85 \\",
    "]]>&lt;b&gt;",
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
    assert [line.count('"') for line in lines] == [0, 2, 2, 2]
    assert lines[3].count("|") == 2
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
    lineage = make_lineage(name)
    kinds: Any = (structs.replace(edge, kind=name) for edge in lineage.edges)
    root = ET.fromstring(render_svg(structs.replace(lineage, edges=tuple(kinds))))
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags == {"svg", "style", "path", "title", "g", "rect", "text"}


def test_exported_html_allows_only_its_own_styles() -> None:
    html = render_page("<b>title", render_svg(make_lineage("<style>x</style>")))
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', html)[0]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "script-src" not in policy
    styles = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    hashes = {b64encode(sha256(style.encode()).digest()).decode() for style in styles}
    assert set(re.findall(r"'sha256-([^']*)'", policy)) == hashes
    assert len(hashes) == 2
