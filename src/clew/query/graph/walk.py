"""Walks over a graph: directed, bounded in hops and in nodes, with a count of what is beyond."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from msgspec import Struct

from clew.query.graph.lens import Lens

Direction = Literal["upstream", "downstream", "both"]
MOST_HOPS: Final = 100
MOST_NODES: Final = 10_000


class Found(Struct, frozen=True):
    """A node that a walk came to; `distance` is less than 0 upstream. Hidden are neighbours that the walk left out."""

    number: int
    distance: int
    hidden_upstream: int
    hidden_downstream: int


class Walk(Struct, frozen=True):
    """What a walk came to, the nearest first, and all edges between."""

    found: tuple[Found, ...]
    edges: tuple[tuple[int, int], ...]
    is_cut: bool


def walk(lens: Lens, start: int, direction: Direction = "both", *, depth: int = 20, limit: int = 1000) -> Walk:
    """Go from a node as far as `depth` hops and `limit` nodes allow.

    Both ways are upstream and downstream of the start, each on its own: what else is made of a source is neither.
    """
    distances, is_cut = _distances(lens, lens.seen_as(start), _ways(direction), depth, limit)
    feeds = {
        number: [one for one in lens.neighbours(number, is_forward=False) if one in distances] for number in distances
    }
    fed = dict.fromkeys(distances, 0)
    for sources in feeds.values():
        for source in sources:
            fed[source] += 1
    found = tuple(
        Found(
            number,
            distance,
            lens.degree(number, is_forward=False) - len(feeds[number]),
            lens.degree(number, is_forward=True) - fed[number],
        )
        for number, distance in distances.items()
    )
    edges = tuple((source, number) for number, sources in feeds.items() for source in sources)
    return Walk(found, edges, is_cut)


def path(lens: Lens, start: int, end: int, *, most: int = 500_000) -> tuple[int, ...] | None:
    """A shortest way along the flow of data; None if there is none, or none among so many nodes."""
    start, end = lens.seen_as(start), lens.seen_as(end)
    if start == end:
        return (start,)
    came: dict[bool, dict[int, int]] = {True: {start: start}, False: {end: end}}
    frontiers = {True: [start], False: [end]}
    while frontiers[True] and frontiers[False] and len(came[True]) + len(came[False]) < most:
        is_forward = len(frontiers[True]) <= len(frontiers[False])
        beyond = []
        for number in frontiers[is_forward]:
            for one in lens.neighbours(number, is_forward=is_forward):
                if one not in came[is_forward]:
                    came[is_forward][one] = number
                    beyond.append(one)
        frontiers[is_forward] = beyond
        met = [one for one in beyond if one in came[not is_forward]]
        if met:
            return _way(came, lens.graph.first(met))
    return None


def _way(came: dict[bool, dict[int, int]], meeting: int) -> tuple[int, ...]:
    before, behind = list(_back(came[True], meeting)), list(_back(came[False], meeting))
    return (*reversed(before), *behind[1:])


def _back(came: dict[int, int], number: int) -> Iterator[int]:
    yield number
    while came[number] != number:
        number = came[number]
        yield number


def _ways(direction: Direction) -> tuple[bool, ...]:
    return {"upstream": (False,), "downstream": (True,), "both": (False, True)}[direction]


def _distances(lens: Lens, start: int, ways: tuple[bool, ...], depth: int, limit: int) -> tuple[dict[int, int], bool]:
    """How far each node is, both ways hop by hop in turn; and whether there were more than may be told."""
    distances = {start: 0}
    seen = {way: {start} for way in ways}
    frontiers = {way: [start] for way in ways}
    for distance in range(1, depth + 1):
        for way in ways:
            beyond = []
            for number in frontiers[way]:
                for end in lens.neighbours(number, is_forward=way):
                    if end in seen[way]:
                        continue
                    if end not in distances:
                        if len(distances) >= limit:
                            return distances, True
                        distances[end] = distance if way else -distance
                    seen[way].add(end)
                    beyond.append(end)
            frontiers[way] = beyond
        if not any(frontiers.values()):
            break
    return distances, False
