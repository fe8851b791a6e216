"""SVG of a frame graph: a card per frame, a row per column, a curve per column edge."""

from __future__ import annotations

from html import escape

from clew.notebook.frame_graph import FrameGraph, FrameLink, FrameNode
from clew.query.layout import Box, Size, Spacing, compute_layered_layout

_WIDTH, _HEAD, _ROW, _FOOT, _MARGIN = 180, 40, 20, 6, 12
_MAX_ROWS, _MAX_LABEL_CHARS = 12, 24
_SPACING = Spacing(layer=64, node=18)
_STYLE = """
.clew text { font: 12px system-ui, sans-serif; fill: currentColor; }
.clew .title { font-weight: 600; }
.clew .quiet { opacity: .65; font-size: 11px; }
.clew .card { fill: none; stroke: currentColor; stroke-opacity: .35; }
.clew .row rect { fill: transparent; }
.clew .row.used text { fill: #7c5cff; }
.clew path { fill: none; stroke: #7c5cff; stroke-width: 1.5; stroke-opacity: .7; }
.clew path.indirect { stroke: #c08a00; stroke-dasharray: 3 3; }
.clew.chosen path, .clew.chosen .row { opacity: .2; }
.clew.chosen path.on, .clew.chosen .row.on { opacity: 1; }
"""


def render_frame_svg(graph: FrameGraph) -> str:
    """Render the graph; the output is deterministic."""
    rows = [_shown_rows(graph, position) for position in range(len(graph.nodes))]
    sizes = {str(position): Size(_WIDTH, _height(len(columns))) for position, columns in enumerate(rows)}
    boxes = compute_layered_layout(sizes, [(str(link.source), str(link.target)) for link in graph.links], _SPACING)
    width = max(box.right for box in boxes.values()) + 2 * _MARGIN
    height = max(box.bottom for box in boxes.values()) + 2 * _MARGIN
    curves = "".join(_curve(number, link, rows, boxes) for number, link in enumerate(graph.links))
    cards = "".join(
        _card(position, node, rows[position], boxes[str(position)]) for position, node in enumerate(graph.nodes)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="clew" viewBox="{-_MARGIN} {-_MARGIN} {width:g} {height:g}"'
        f' width="{width:g}" height="{height:g}" role="img"><title>{escape(_description(graph))}</title>'
        f"<style>{_STYLE}</style>{curves}{cards}</svg>"
    )


def _description(graph: FrameGraph) -> str:
    return f"Lineage of {graph.nodes[0].title}: {', '.join(node.title for node in graph.nodes[1:]) or 'no sources'}"


def _shown_rows(graph: FrameGraph, position: int) -> dict[str, int]:
    """Map the visible columns of a card to rows; with too many columns, those with edges first."""
    used = {link.source_column for link in graph.links if link.source == position}
    used |= {link.column for link in graph.links if link.target == position and link.column is not None}
    columns = graph.nodes[position].columns or tuple(sorted(used))
    if len(columns) > _MAX_ROWS:
        columns = tuple(sorted(columns, key=lambda column: column not in used)[:_MAX_ROWS])
    return {column: row for row, column in enumerate(columns)}


def _height(rows: int) -> float:
    return _HEAD + _ROW * rows + _FOOT


def _card(position: int, node: FrameNode, rows: dict[str, int], box: Box) -> str:
    details = [
        _count_label(node.row_count, "row"),
        node.made_by or "",
        _count_label(len(node.columns) - len(rows), "more column"),
    ]
    row_elements = "".join(_row(position, node, column, row) for column, row in rows.items())
    return (
        f'<g transform="translate({box.x:g} {box.y:g})">'
        f'<rect class="card" width="{_WIDTH}" height="{box.height:g}" rx="6"/>'
        f'<text class="title" x="10" y="17">{escape(_truncate(node.title))}</text>'
        f'<text class="quiet" x="10" y="32">{escape(" · ".join(filter(None, details)))}</text>{row_elements}</g>'
    )


def _row(position: int, node: FrameNode, column: str, row: int) -> str:
    top = _HEAD + row * _ROW
    return (
        f'<g class="row" data-node="{position}" data-frame="{escape(node.title)}" data-column="{escape(column)}">'
        f'<title>{escape(column)}</title><rect x="1" y="{top}" width="{_WIDTH - 2}" height="{_ROW}"/>'
        f'<text x="10" y="{top + 14}">{escape(_truncate(column))}</text></g>'
    )


def _curve(number: int, link: FrameLink, rows: list[dict[str, int]], boxes: dict[str, Box]) -> str:
    start, end = boxes[str(link.source)], boxes[str(link.target)]
    x1, y1 = start.right, start.y + _middle(rows[link.source].get(link.source_column))
    x2, y2 = end.x, end.y + _middle(None if link.column is None else rows[link.target].get(link.column))
    bend = max((x2 - x1) / 2, 24)
    kind = "" if link.type == "DIRECT" else ' class="indirect"'
    title = f"{link.source_column} → {link.column or 'all rows'}: {link.subtype.lower()}"
    return (
        f'<path data-link="{number}"{kind} d="M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2:g} {y2:g}">'
        f"<title>{escape(title)}</title></path>"
    )


def _middle(row: int | None) -> float:
    return _HEAD / 2 if row is None else _HEAD + row * _ROW + _ROW / 2


def _count_label(number: int | None, noun: str) -> str:
    if number is None or number < 0 or (number == 0 and noun != "row"):
        return ""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_LABEL_CHARS else f"{text[: _MAX_LABEL_CHARS - 1]}…"
