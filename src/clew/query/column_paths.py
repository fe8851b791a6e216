"""The way of values from one column to another."""

from __future__ import annotations

from collections.abc import Iterable

from clew.query.lineage import Lineage, LineageEdge


def column_path(walked: Lineage, end: str) -> tuple[LineageEdge, ...] | None:
    """The edges of a shortest way from the start of a walk downstream to a column; None if it did not come there."""
    came: dict[str, LineageEdge] = {}
    leaving: dict[str, list[LineageEdge]] = {}
    for edge in walked.edges:
        if edge.kind == "INDIRECT":
            continue
        leaving.setdefault(edge.start, []).append(edge)
    reached, frontier = {walked.start}, [walked.start]
    while frontier and end not in reached:
        beyond: list[str] = []
        for edge in _from(frontier, leaving):
            if edge.end not in reached:
                reached.add(edge.end)
                came[edge.end] = edge
                beyond.append(edge.end)
        frontier = beyond
    if end not in reached:
        return None
    way: list[LineageEdge] = []
    while end != walked.start:
        way.append(came[end])
        end = came[end].start
    return tuple(reversed(way))


def _from(nodes: Iterable[str], leaving: dict[str, list[LineageEdge]]) -> Iterable[LineageEdge]:
    return (edge for node in nodes for edge in leaving.get(node, ()))
