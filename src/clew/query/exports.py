"""Lineage export as SVG, Mermaid or Graphviz, and the policy of exported HTML."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape

from clew.query.layout import Box, Size, Spacing, compute_layered_layout, curve_path
from clew.query.lineage import LineageEdge, LineageNode, LineageResult
from clew.query.model import shorten
from clew.query.names import last_segment

_WIDTH, _HEIGHT, _MARGIN, _MAX_LABEL_CHARS = 190, 44, 12, 26
_SPACING = Spacing(layer=70, node=16)
_COLOURS = {"dataset": "#2f7bd6", "column": "#7c5cff", "job": "#c08a00", "run": "#2e9b62"}
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #222; }
.quiet { fill: #666; font-size: 11px; }
rect { fill: #fff; stroke-width: 1.5; }
path { fill: none; stroke: #888; stroke-width: 1.3; }
path.INDIRECT { stroke-dasharray: 3 3; }
"""


def render_svg(lineage: LineageResult) -> str:
    """Render a deterministic SVG with data flowing from left to right."""
    sizes = {node.id: Size(_WIDTH, _HEIGHT) for node in lineage.nodes}
    boxes = compute_layered_layout(sizes, [(edge.start, edge.end) for edge in lineage.edges], _SPACING)
    width = max(box.right for box in boxes.values()) + 2 * _MARGIN
    height = max(box.bottom for box in boxes.values()) + 2 * _MARGIN
    curves = "".join(_curve(edge, boxes) for edge in lineage.edges)
    cards = "".join(_card(node, boxes[node.id], is_start=node.id == lineage.start) for node in lineage.nodes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN} {-_MARGIN} {width:g} {height:g}"'
        f' width="{width:g}" height="{height:g}"><style>{_STYLE}</style>{curves}{cards}</svg>\n'
    )


def render_mermaid(lineage: LineageResult) -> str:
    """Render a Mermaid flowchart."""
    names = _short_ids(lineage)
    lines = ["flowchart LR"]
    for node in lineage.nodes:
        before, after = {"job": ("([", "])"), "run": ("([", "])")}.get(node.kind, ("[", "]"))
        lines.append(f'    {names[node.id]}{before}"{_escape_mermaid(node_label(node))}"{after}')
    for edge in lineage.edges:
        arrow = "-.->" if edge.kind == "INDIRECT" else "-->"
        subtype = "" if edge.subtype is None else f'|"{_escape_mermaid(edge.subtype.lower())}"|'
        lines.append(f"    {names[edge.start]} {arrow}{subtype} {names[edge.end]}")
    return "\n".join(lines) + "\n"


def render_dot(lineage: LineageResult) -> str:
    """Render a Graphviz digraph."""
    lines = ["digraph lineage {", "    rankdir=LR;", '    node [shape=box, fontname="sans-serif"];']
    for node in lineage.nodes:
        shape = ", shape=ellipse" if node.kind in {"job", "run"} else ""
        lines.append(f"    {_quote(node.id)} [label={_quote(node_label(node))}{shape}];")
    for edge in lineage.edges:
        attributes = [f"label={_quote(edge.subtype.lower())}"] if edge.subtype else []
        attributes += ["style=dashed"] if edge.kind == "INDIRECT" else []
        attribute_list = f" [{', '.join(attributes)}]" if attributes else ""
        lines.append(f"    {_quote(edge.start)} -> {_quote(edge.end)}{attribute_list};")
    return "\n".join([*lines, "}"]) + "\n"


def node_label(node: LineageNode) -> str:
    """Return a short label: last name component and column; for a run, its job and state."""
    short = last_segment(node.name) or node.id
    if node.kind == "run":
        return f"{short} {(node.state or '').lower()}".strip()
    return short if node.column is None else f"{short}.{node.column}"


def _short_ids(lineage: LineageResult) -> dict[str, str]:
    return {node.id: f"n{position}" for position, node in enumerate(lineage.nodes)}


def _escape_mermaid(text: str) -> str:
    # Inside quotes Mermaid decodes entities without ampersand (`#34;`) and no other escapes.
    return re.sub(r'["#;<>&`|%\\\\]', lambda match: f"#{ord(match[0])};", _one_line(text))


def _quote(text: str) -> str:
    escaped = _one_line(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _escape_xml(text: str) -> str:
    return escape(_one_line(text))


def _one_line(text: str) -> str:
    """Replace line breaks, and control characters and lone surrogates, which XML and UTF-8 cannot contain."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]", " ", text)


def _card(node: LineageNode, box: Box, *, is_start: bool) -> str:
    width = ' stroke-width="3"' if is_start else ""
    radius = 20 if node.kind in {"job", "run"} else 5
    title, subtitle = (
        _escape_xml(shorten(text, _MAX_LABEL_CHARS)) for text in (node_label(node), f"{node.kind} · {node.namespace}")
    )
    return (
        f'<g transform="translate({box.x:g} {box.y:g})"><title>{_escape_xml(node.id)}</title>'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="{radius}" stroke="{_COLOURS[node.kind]}"{width}/>'
        f'<text x="12" y="19">{title}</text>'
        f'<text class="quiet" x="12" y="35">{subtitle}</text></g>'
    )


def _curve(edge: LineageEdge, boxes: dict[str, Box]) -> str:
    start, end = boxes[edge.start], boxes[edge.end]
    line = curve_path(start, start.y + _HEIGHT / 2, end, end.y + _HEIGHT / 2)
    title = edge.kind.lower() if edge.subtype is None else edge.subtype.lower()
    return f'<path class="{_escape_xml(edge.kind)}" d="{line}"><title>{_escape_xml(title)}</title></path>'


def content_policy(scripts: Iterable[str] = (), styles: Iterable[str] = ()) -> str:
    """Return the meta element that allows only these inline scripts and styles, and no requests."""
    sources = {"script-src": _hashes(scripts), "style-src": _hashes(styles)}
    allowed = "; ".join(f"{name} {value}" for name, value in sources.items() if value)
    policy = f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; {allowed}"
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">'


def _hashes(texts: Iterable[str]) -> str:
    digests = (b64encode(sha256(text.encode()).digest()).decode() for text in dict.fromkeys(texts))
    return " ".join(f"'sha256-{digest}'" for digest in digests)
