"""Lineage of a DataFrame as a graph and an SVG picture."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from clew.capture.backends.base import bound_frames
from clew.capture.lineage.frame_version import FrameVersion
from clew.capture.lineage.provenance import Provenance
from clew.capture.lineage.query import compose_sources
from clew.capture.lineage.transformations import MARKS, transformations
from clew.query.layout import Box, Size, Spacing, compute_layered_layout, curve_path
from clew.query.model import shorten

# Display names of pandas methods.
_METHOD_LABELS = {"__getitem__": "selection", "__setitem__": "assignment", "series": ""}


class FrameNode(Struct, frozen=True):
    """A file, or a frame that is or was assigned to a variable."""

    title: str
    kind: Literal["frame", "file"]
    made_by: str | None
    row_count: int | None
    columns: tuple[str, ...]


class FrameLink(Struct, frozen=True):
    """A column lineage edge; `column` is None for the whole frame. Nodes are referenced by position."""

    source: int
    source_column: str
    target: int
    column: str | None
    type: str
    subtype: str
    is_certain: bool


class FrameGraph(Struct, frozen=True):
    """Nodes (the target is the first) and column lineage edges."""

    nodes: tuple[FrameNode, ...]
    links: tuple[FrameLink, ...]

    def restrict_to(self, column: str) -> FrameGraph:
        """Return the subgraph upstream of one column of the target."""
        visited, links, pending = {(0, column)}, dict[FrameLink, None](), [(0, column)]
        while pending:
            node, name = pending.pop()
            for link in self.links:
                if link.target == node and link.column in (name, None):
                    links[link] = None
                    end = link.source, link.source_column
                    # INDIRECT sources are included, but not followed.
                    if link.type == "DIRECT" and end not in visited:
                        visited.add(end)
                        pending.append(end)
        return _renumber(self, list(links))


def frame_variables(scopes: Iterable[Mapping[str, Any]]) -> dict[FrameVersion, str]:
    """Map frames to their variable names in the user's scopes, nearest scope first."""
    names: dict[FrameVersion, str] = {}
    for scope in scopes:
        for name, _, version in bound_frames(scope):
            if not name.startswith("_"):
                names.setdefault(version, name)
    return names


def build_frame_graph(target: FrameVersion, names: Mapping[FrameVersion, str]) -> FrameGraph:
    """Build the graph upstream of a frame; frames without a variable are skipped."""
    visible = [version for version in _ancestors(target) if version in names or _is_named(version)]
    stops = set(visible) - {target}
    positions = {target: 0}
    links: dict[FrameLink, None] = {}
    for version in (target, *visible):
        columns, rows = compose_sources(version, stops - {version})
        if version in positions:
            links |= dict.fromkeys(_links(version, columns, rows, positions))
    nodes = tuple(_node(version, names.get(version)) for version in positions)
    return FrameGraph(nodes, tuple(links))


def version_label(version: FrameVersion, name: str | None) -> str:
    """Return the display name of a frame or file."""
    if version.dataset is not None:
        return version.dataset.label.rsplit("/", 1)[-1]
    return name or version.name or ("series" if _method(version) == "series" else f"frame {version.uid}")


def _method(version: FrameVersion) -> str:
    return "" if version.made_by is None else version.made_by.method


def _is_named(version: FrameVersion) -> bool:
    return version.dataset is not None or version.name is not None or version.made_by is None


def _ancestors(target: FrameVersion) -> Iterator[FrameVersion]:
    """Yield all upstream versions, nearest first."""
    seen, pending = {target}, [target]
    for version in pending:
        for source in version.made_by.inputs() if version.made_by is not None else ():
            if source not in seen:
                seen.add(source)
                pending.append(source)
                yield source


def _links(
    version: FrameVersion,
    columns: Mapping[Any, Provenance],
    rows: Provenance,
    positions: dict[FrameVersion, int],
) -> Iterator[FrameLink]:
    for label, provenance in [*columns.items(), (None, rows)]:
        for (source, column), flags in provenance.items():
            if source is version:
                continue
            for transformation_type, subtype in transformations(flags):
                yield FrameLink(
                    source=positions.setdefault(source, len(positions)),
                    source_column=str(column),
                    target=positions[version],
                    column=None if label is None else str(label),
                    type=transformation_type,
                    subtype=subtype,
                    is_certain=not flags & MARKS,
                )


def _node(version: FrameVersion, name: str | None) -> FrameNode:
    return FrameNode(
        title=version_label(version, name),
        kind="frame" if version.dataset is None else "file",
        made_by=_METHOD_LABELS.get(_method(version), _method(version)) or None,
        row_count=None if version.shape is None else version.shape[0],
        columns=tuple(map(str, version.labels())),
    )


def _renumber(graph: FrameGraph, links: list[FrameLink]) -> FrameGraph:
    nodes = dict.fromkeys([0, *(end for link in links for end in (link.target, link.source))])
    positions = {node: position for position, node in enumerate(nodes)}
    renumbered = (replace(link, source=positions[link.source], target=positions[link.target]) for link in links)
    return FrameGraph(tuple(graph.nodes[node] for node in nodes), tuple(renumbered))


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
        f'<text class="title" x="10" y="17">{escape(shorten(node.title, _MAX_LABEL_CHARS))}</text>'
        f'<text class="quiet" x="10" y="32">{escape(" · ".join(filter(None, details)))}</text>{row_elements}</g>'
    )


def _row(position: int, node: FrameNode, column: str, row: int) -> str:
    top = _HEAD + row * _ROW
    return (
        f'<g class="row" data-node="{position}" data-frame="{escape(node.title)}" data-column="{escape(column)}">'
        f'<title>{escape(column)}</title><rect x="1" y="{top}" width="{_WIDTH - 2}" height="{_ROW}"/>'
        f'<text x="10" y="{top + 14}">{escape(shorten(column, _MAX_LABEL_CHARS))}</text></g>'
    )


def _curve(number: int, link: FrameLink, rows: list[dict[str, int]], boxes: dict[str, Box]) -> str:
    start, end = boxes[str(link.source)], boxes[str(link.target)]
    start_y = start.y + _middle(rows[link.source].get(link.source_column))
    end_y = end.y + _middle(None if link.column is None else rows[link.target].get(link.column))
    kind = "" if link.type == "DIRECT" else ' class="indirect"'
    title = f"{link.source_column} → {link.column or 'all rows'}: {link.subtype.lower()}"
    return (
        f'<path data-link="{number}"{kind} d="{curve_path(start, start_y, end, end_y)}">'
        f"<title>{escape(title)}</title></path>"
    )


def _middle(row: int | None) -> float:
    return _HEAD / 2 if row is None else _HEAD + row * _ROW + _ROW / 2


def _count_label(number: int | None, noun: str) -> str:
    if number is None or number < 0 or (number == 0 and noun != "row"):
        return ""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
