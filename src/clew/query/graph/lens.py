"""The graph as someone wants to see it: as of a time, with child jobs rolled up, without frames in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from clew.query.graph.lineage import How, LineageGraph

RollUp = Literal["none", "parent", "root"]


class Sight(Struct, frozen=True):
    """What to leave out, and what to see as one.

    `as_of`, in microseconds: only edges that some event up to then spoke of. `roll_up`: a job that started no others as
    the job that started it, or all jobs as the first of those. Unless `has_frames`, datasets that were only ever in
    memory are passed through.
    """

    as_of: int | None = None
    roll_up: RollUp = "none"
    has_frames: bool = False


class Lens:
    """Neighbours of nodes in a graph, seen in one way."""

    def __init__(self, graph: LineageGraph, sight: Sight | None = None) -> None:
        self.graph = graph
        self.sight = sight or Sight()
        self._is_plain = self.sight.as_of is None and self.sight.roll_up == "none"

    def seen_as(self, number: int) -> int:
        """The node that a node is shown as."""
        parents = self.graph.parents
        if self.sight.roll_up == "none" or parents[number] == number:
            return number
        if self.sight.roll_up == "parent":
            return number if number in self.graph.children() else parents[number]
        passed = {number}
        while parents[number] not in passed:
            number = parents[number]
            passed.add(number)
        # In a circle of parents all are the least of them.
        return number if parents[number] == number else min(self._circle(number))

    def neighbours(self, number: int, *, is_forward: bool) -> Sequence[int]:
        """Which nodes a node feeds, or is fed by, each once; what is passed through is no node."""
        if self._is_plain and not self._meets_frames(number):
            return (self.graph.forward if is_forward else self.graph.backward).ends_of(number)
        found: dict[int, None] = {}
        passed: set[int] = set()
        pending = [number]
        while pending:
            for end in self._ends(pending.pop(), is_forward=is_forward):
                if not self.sight.has_frames and self.graph.is_frame(end):
                    if end not in passed:
                        passed.add(end)
                        pending.append(end)
                elif end != number:
                    found[end] = None
        return list(found)

    def degree(self, number: int, *, is_forward: bool) -> int:
        """How many neighbours a node has."""
        return len(self.neighbours(number, is_forward=is_forward))

    def how(self, start: int, end: int) -> How | None:
        """What the edge between two nodes says; None if something in between is not shown."""
        edge = self.graph.forward.edge_to(start, end)
        if edge is not None:
            return self.graph.how(edge)
        if self.graph.is_job(start) != self.graph.is_job(end) and self.sight.roll_up != "none":
            return "READ" if self.graph.is_job(end) else "WRITE"
        return None

    def _meets_frames(self, number: int) -> bool:
        """Whether a frame may be beside a node: those of a dataset are not looked through one by one."""
        return not self.sight.has_frames and (self.graph.is_job(number) or self.graph.is_frame(number))

    def _ends(self, number: int, *, is_forward: bool) -> Iterable[int]:
        side = self.graph.forward if is_forward else self.graph.backward
        for member in self._members(number):
            ends: Iterable[int] = side.ends_of(member)
            if self.sight.as_of is not None:
                since, as_of = self.graph.since, self.sight.as_of
                edges = zip(ends, side.edges_of(member), strict=True)
                ends = (end for end, edge in edges if since[edge] <= as_of)
            yield from ends if self.sight.roll_up == "none" else map(self.seen_as, ends)

    def _members(self, number: int) -> Iterable[int]:
        """The nodes that are shown as one."""
        if self.sight.roll_up == "none":
            return (number,)
        children = self.graph.children()
        if self.sight.roll_up == "parent":
            return (number, *(child for child in children.get(number, ()) if child not in children))
        members, pending = {number}, [number]
        while pending:
            for child in children.get(pending.pop(), ()):
                if child not in members:
                    members.add(child)
                    pending.append(child)
        return members

    def _circle(self, number: int) -> set[int]:
        circle = {number}
        while (number := self.graph.parents[number]) not in circle:
            circle.add(number)
        return circle
