"""Shortest path between two columns along DIRECT edges."""

from __future__ import annotations

from collections.abc import Iterable

from clew.query.lineage import LineageEdge, LineageResult


def shortest_column_path(result: LineageResult, target: str) -> tuple[LineageEdge, ...] | None:
    """Return the edges of a shortest DIRECT path from the start of a downstream result to a column, or None."""
    predecessors: dict[str, LineageEdge] = {}
    outgoing: dict[str, list[LineageEdge]] = {}
    for edge in result.edges:
        if edge.kind == "INDIRECT":
            continue
        outgoing.setdefault(edge.start, []).append(edge)
    visited, frontier = {result.start}, [result.start]
    while frontier and target not in visited:
        next_frontier: list[str] = []
        for edge in _outgoing_edges(frontier, outgoing):
            if edge.end not in visited:
                visited.add(edge.end)
                predecessors[edge.end] = edge
                next_frontier.append(edge.end)
        frontier = next_frontier
    if target not in visited:
        return None
    path: list[LineageEdge] = []
    while target != result.start:
        path.append(predecessors[target])
        target = predecessors[target].start
    return tuple(reversed(path))


def _outgoing_edges(nodes: Iterable[str], outgoing: dict[str, list[LineageEdge]]) -> Iterable[LineageEdge]:
    return (edge for node in nodes for edge in outgoing.get(node, ()))
