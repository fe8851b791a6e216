"""A lineage as a drawing for other tools: SVG, Mermaid, Graphviz."""

from __future__ import annotations

import re
from html import escape

from clew.query.layout import Box, Size, Spacing, layered
from clew.query.lineage import Lineage, LineageEdge, LineageNode

_WIDTH, _HEIGHT, _MARGIN, _LONGEST = 190, 44, 12, 26
_SPACING = Spacing(layer=70, node=16)
_COLOURS = {"dataset": "#2f7bd6", "column": "#7c5cff", "job": "#c08a00", "run": "#2e9b62"}
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222; }
.quiet { fill: #666; font-size: 11px; }
rect { fill: #fff; stroke-width: 1.5; }
path { fill: none; stroke: #888; stroke-width: 1.3; }
path.INDIRECT { stroke-dasharray: 3 3; }
"""


def svg(found: Lineage) -> str:
    """A picture with the flow of data from left to right, the same every time."""
    sizes = {node.id: Size(_WIDTH, _HEIGHT) for node in found.nodes}
    boxes = layered(sizes, [(edge.start, edge.end) for edge in found.edges], _SPACING)
    width = max(box.right for box in boxes.values()) + 2 * _MARGIN
    height = max(box.bottom for box in boxes.values()) + 2 * _MARGIN
    curves = "".join(_curve(edge, boxes) for edge in found.edges)
    cards = "".join(_card(node, boxes[node.id], is_start=node.id == found.start) for node in found.nodes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN} {-_MARGIN} {width:g} {height:g}"'
        f' width="{width:g}" height="{height:g}"><style>{_STYLE}</style>{curves}{cards}</svg>\n'
    )


def mermaid(found: Lineage) -> str:
    """A flowchart as Markdown pages show it."""
    names = _short_ids(found)
    lines = ["flowchart LR"]
    for node in found.nodes:
        before, after = {"job": ("([", "])"), "run": ("([", "])")}.get(node.kind, ("[", "]"))
        lines.append(f'    {names[node.id]}{before}"{_mermaid_text(label(node))}"{after}')
    for edge in found.edges:
        arrow = "-.->" if edge.kind == "INDIRECT" else "-->"
        how = "" if edge.subtype is None else f"|{_mermaid_text(edge.subtype.lower())}|"
        lines.append(f"    {names[edge.start]} {arrow}{how} {names[edge.end]}")
    return "\n".join(lines) + "\n"


def dot(found: Lineage) -> str:
    """A graph for Graphviz."""
    lines = ["digraph lineage {", "    rankdir=LR;", '    node [shape=box, fontname="sans-serif"];']
    for node in found.nodes:
        shape = ", shape=ellipse" if node.kind in {"job", "run"} else ""
        lines.append(f"    {_quoted(node.id)} [label={_quoted(label(node))}{shape}];")
    for edge in found.edges:
        facts = [f"label={_quoted(edge.subtype.lower())}"] if edge.subtype else []
        facts += ["style=dashed"] if edge.kind == "INDIRECT" else []
        told = f" [{', '.join(facts)}]" if facts else ""
        lines.append(f"    {_quoted(edge.start)} -> {_quoted(edge.end)}{told};")
    return "\n".join([*lines, "}"]) + "\n"


def label(node: LineageNode) -> str:
    """What a person calls a node: the last part of its name, with the column; of a run its job and how it ended."""
    short = node.name.rstrip("/").rsplit("/", 1)[-1] or node.id
    if node.kind == "run":
        return f"{short} {(node.state or '').lower()}".strip()
    return short if node.column is None else f"{short}.{node.column}"


def _short_ids(found: Lineage) -> dict[str, str]:
    return {node.id: f"n{place}" for place, node in enumerate(found.nodes)}


def _mermaid_text(text: str) -> str:
    # Mermaid reads entities without the ampersand, and nothing else inside quotes.
    return re.sub(r'["#;<>&]', lambda found: f"#{ord(found[0])};", text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def _card(node: LineageNode, box: Box, *, is_start: bool) -> str:
    width = ' stroke-width="3"' if is_start else ""
    radius = 20 if node.kind in {"job", "run"} else 5
    return (
        f'<g transform="translate({box.x:g} {box.y:g})"><title>{escape(node.id)}</title>'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="{radius}" stroke="{_COLOURS[node.kind]}"{width}/>'
        f'<text x="12" y="19">{escape(_clipped(label(node)))}</text>'
        f'<text class="quiet" x="12" y="35">{escape(_clipped(f"{node.kind} · {node.namespace}"))}</text></g>'
    )


def _curve(edge: LineageEdge, boxes: dict[str, Box]) -> str:
    start, end = boxes[edge.start], boxes[edge.end]
    x1, y1, x2, y2 = start.right, start.y + _HEIGHT / 2, end.x, end.y + _HEIGHT / 2
    bend = max((x2 - x1) / 2, 24)
    told = edge.kind.lower() if edge.subtype is None else edge.subtype.lower()
    return (
        f'<path class="{edge.kind}" d="M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}">'
        f"<title>{escape(told)}</title></path>"
    )


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
