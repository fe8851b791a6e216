"""Traversals and shortest paths in a job graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from clew.query.graph.lens import JobGraphView

Direction = Literal["upstream", "downstream", "both"]
MAX_HOPS: Final = 100
MAX_NODES: Final = 10_000


class VisitedNode(Struct, frozen=True):
    """A visited node. `distance` is negative upstream; `hidden_*` count neighbours that were not visited."""

    number: int
    distance: int
    hidden_upstream: int
    hidden_downstream: int


class Traversal(Struct, frozen=True):
    """Visited nodes, nearest first, and all edges between them."""

    nodes: tuple[VisitedNode, ...]
    edges: tuple[tuple[int, int], ...]
    is_truncated: bool


def traverse(
    view: JobGraphView, start: int, direction: Direction = "both", *, depth: int = 20, limit: int = 1000
) -> Traversal:
    """Traverse from a node up to `depth` hops and `limit` nodes.

    `both` combines the upstream and the downstream traversal of the start; siblings are in neither.
    """
    distances, is_truncated = _distances(view, view.representative(start), _directions(direction), depth, limit)
    sources_of = {
        number: [source for source in view.neighbours(number, is_forward=False) if source in distances]
        for number in distances
    }
    target_counts = dict.fromkeys(distances, 0)
    for sources in sources_of.values():
        for source in sources:
            target_counts[source] += 1
    nodes = tuple(
        VisitedNode(
            number,
            distance,
            view.degree(number, is_forward=False) - len(sources_of[number]),
            view.degree(number, is_forward=True) - target_counts[number],
        )
        for number, distance in distances.items()
    )
    edges = tuple((source, number) for number, sources in sources_of.items() for source in sources)
    return Traversal(nodes, edges, is_truncated)


def find_shortest_path(view: JobGraphView, start: int, end: int, *, max_nodes: int = 500_000) -> tuple[int, ...] | None:
    """Find a shortest path along the data flow by bidirectional search of at most about `max_nodes` nodes."""
    start, end = view.representative(start), view.representative(end)
    if start == end:
        return (start,)
    predecessors: dict[bool, dict[int, int]] = {True: {start: start}, False: {end: end}}
    frontiers = {True: [start], False: [end]}
    while frontiers[True] and frontiers[False] and len(predecessors[True]) + len(predecessors[False]) < max_nodes:
        is_forward = len(frontiers[True]) <= len(frontiers[False])
        next_frontier = []
        for number in frontiers[is_forward]:
            for neighbour in view.neighbours(number, is_forward=is_forward):
                if neighbour not in predecessors[is_forward]:
                    predecessors[is_forward][neighbour] = number
                    next_frontier.append(neighbour)
        frontiers[is_forward] = next_frontier
        meeting = [node for node in next_frontier if node in predecessors[not is_forward]]
        if meeting:
            return _join_paths(predecessors, view.graph.first_by_name(meeting))
    return None


def _join_paths(predecessors: dict[bool, dict[int, int]], meeting: int) -> tuple[int, ...]:
    head, tail = list(_trace_back(predecessors[True], meeting)), list(_trace_back(predecessors[False], meeting))
    return (*reversed(head), *tail[1:])


def _trace_back(predecessors: dict[int, int], number: int) -> Iterator[int]:
    yield number
    while predecessors[number] != number:
        number = predecessors[number]
        yield number


def _directions(direction: Direction) -> tuple[bool, ...]:
    return {"upstream": (False,), "downstream": (True,), "both": (False, True)}[direction]


def _distances(
    view: JobGraphView, start: int, directions: tuple[bool, ...], depth: int, limit: int
) -> tuple[dict[int, int], bool]:
    """Compute the distance of each node, alternating directions per hop, and whether `limit` truncated it."""
    distances = {start: 0}
    seen = {is_forward: {start} for is_forward in directions}
    frontiers = {is_forward: [start] for is_forward in directions}
    for distance in range(1, depth + 1):
        for is_forward in directions:
            next_frontier = []
            for number in frontiers[is_forward]:
                for end in view.neighbours(number, is_forward=is_forward):
                    if end in seen[is_forward]:
                        continue
                    if end not in distances:
                        if len(distances) >= limit:
                            return distances, True
                        distances[end] = distance if is_forward else -distance
                    seen[is_forward].add(end)
                    next_frontier.append(end)
            frontiers[is_forward] = next_frontier
        if not any(frontiers.values()):
            break
    return distances, False
