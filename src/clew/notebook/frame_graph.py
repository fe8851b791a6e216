"""The frames and files behind a frame, and which of their columns went into which: what the picture shows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from clew.capture.flags import MARKS, transformations
from clew.capture.lineage import sources_of
from clew.capture.provenance import Provenance
from clew.capture.versions import STATE, FrameVersion

# What pandas calls by names that no one says.
_METHODS = {"__getitem__": "selection", "__setitem__": "assignment", "series": ""}


class FrameNode(Struct, frozen=True):
    """A frame that a variable holds, or held, or a file."""

    title: str
    kind: Literal["frame", "file"]
    made_by: str | None
    row_count: int | None
    columns: tuple[str, ...]


class FrameLink(Struct, frozen=True):
    """A column's part in another; `column` is None for what holds for the whole frame. Nodes by their places."""

    source: int
    source_column: str
    target: int
    column: str | None
    type: str
    subtype: str
    is_certain: bool


class FrameGraph(Struct, frozen=True):
    """Nodes from the target, which is the first, back to the origins."""

    nodes: tuple[FrameNode, ...]
    links: tuple[FrameLink, ...]

    def only(self, column: str) -> FrameGraph:
        """What one column of the target comes from, and what had a say in it."""
        wanted, kept, pending = {(0, column)}, dict[FrameLink, None](), [(0, column)]
        while pending:
            node, name = pending.pop()
            for link in self.links:
                if link.target == node and link.column in (name, None):
                    kept[link] = None
                    end = link.source, link.source_column
                    # Who only had a say is named, not followed.
                    if link.type == "DIRECT" and end not in wanted:
                        wanted.add(end)
                        pending.append(end)
        return _renumbered(self, list(kept))


def variables_of(scopes: Iterable[Mapping[str, Any]]) -> dict[FrameVersion, str]:
    """The names of the variables that hold frames in scopes of the user's, the nearest scope first."""
    frame_type = getattr(sys.modules.get("pandas"), "DataFrame", ())
    found: dict[FrameVersion, str] = {}
    for scope in scopes:
        for name, value in list(scope.items()):
            if isinstance(value, frame_type) and not name.startswith("_"):
                state = value.__dict__.get(STATE)
                if isinstance(state, FrameVersion):
                    found.setdefault(state, name)
    return found


def frame_graph(target: FrameVersion, names: Mapping[FrameVersion, str]) -> FrameGraph:
    """The graph behind a frame; what no variable holds is passed through."""
    known = [version for version in _behind(target) if version in names or _is_named(version)]
    stops = set(known) - {target}
    places = {target: 0}
    links: dict[FrameLink, None] = {}
    for version in (target, *known):
        columns, rows = sources_of(version, stops - {version})
        if version in places:
            links |= dict.fromkeys(_links(version, columns, rows, places))
    nodes = tuple(_node(version, names.get(version)) for version in places)
    return FrameGraph(nodes, tuple(links))


def title_of(version: FrameVersion, name: str | None) -> str:
    """What a person calls a frame or a file."""
    if version.dataset is not None:
        return version.dataset.label.rsplit("/", 1)[-1]
    return name or version.name or ("series" if _method(version) == "series" else f"frame {version.uid}")


def _method(version: FrameVersion) -> str:
    return "" if version.made_by is None else version.made_by.method


def _is_named(version: FrameVersion) -> bool:
    return version.dataset is not None or version.name is not None or version.made_by is None


def _behind(target: FrameVersion) -> Iterator[FrameVersion]:
    """All versions behind one, the nearest first."""
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
    places: dict[FrameVersion, int],
) -> Iterator[FrameLink]:
    for label, provenance in [*columns.items(), (None, rows)]:
        for (source, column), flags in provenance.items():
            if source is version:
                continue
            for kind, subtype in transformations(flags):
                yield FrameLink(
                    source=places.setdefault(source, len(places)),
                    source_column=str(column),
                    target=places[version],
                    column=None if label is None else str(label),
                    type=kind,
                    subtype=subtype,
                    is_certain=not flags & MARKS,
                )


def _node(version: FrameVersion, name: str | None) -> FrameNode:
    return FrameNode(
        title=title_of(version, name),
        kind="frame" if version.dataset is None else "file",
        made_by=_METHODS.get(_method(version), _method(version)) or None,
        row_count=None if version.shape is None else version.shape[0],
        columns=tuple(map(str, version.labels())),
    )


def _renumbered(graph: FrameGraph, links: list[FrameLink]) -> FrameGraph:
    kept = dict.fromkeys([0, *(end for link in links for end in (link.target, link.source))])
    places = {node: place for place, node in enumerate(kept)}
    moved = (
        FrameLink(
            places[link.source],
            link.source_column,
            places[link.target],
            link.column,
            link.type,
            link.subtype,
            link.is_certain,
        )
        for link in links
    )
    return FrameGraph(tuple(graph.nodes[node] for node in kept), tuple(moved))
