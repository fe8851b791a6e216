"""Graph of the upstream frames and files of a frame, with column lineage."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from clew.capture.flags import MARKS, transformations
from clew.capture.lineage import compose_sources
from clew.capture.provenance import Provenance
from clew.capture.versions import STATE_ATTR, FrameVersion

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
    frame_type = getattr(sys.modules.get("pandas"), "DataFrame", ())
    names: dict[FrameVersion, str] = {}
    for scope in scopes:
        for name, value in list(scope.items()):
            if isinstance(value, frame_type) and not name.startswith("_"):
                state = value.__dict__.get(STATE_ATTR)
                if isinstance(state, FrameVersion):
                    names.setdefault(state, name)
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
    renumbered = (
        FrameLink(
            positions[link.source],
            link.source_column,
            positions[link.target],
            link.column,
            link.type,
            link.subtype,
            link.is_certain,
        )
        for link in links
    )
    return FrameGraph(tuple(graph.nodes[node] for node in nodes), tuple(renumbered))
