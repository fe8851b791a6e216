"""The graph as someone wants to see it: as of a time, with child jobs rolled up, without frames in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from clew.query.graph.lineage import How
from clew.query.graph.nodes import Node

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


class Side(Protocol):
    """The edges of nodes in one direction."""

    def ends_of(self, node: int, /) -> Sequence[int]:
        """The neighbours of a node, in order."""

    def edges_of(self, node: int, /) -> Sequence[int]:
        """The numbers of a node's edges, beside their ends."""

    def edge_to(self, node: int, end: int, /) -> int | None:
        """The number of an edge between two nodes."""


class Lineages(Protocol):
    """A graph of jobs and datasets."""

    @property
    def forward(self) -> Side:
        """The edges along the flow of data."""

    @property
    def backward(self) -> Side:
        """The edges against it."""

    @property
    def since(self) -> Sequence[int]:
        """Since when each edge is known."""

    def find(self, node: Node, /) -> int | None:
        """The number of a job or dataset; None if lineage tells nothing of it."""

    def node(self, number: int, /) -> Node:
        """The job or dataset of a number."""

    def is_job(self, number: int, /) -> bool:
        """Whether a number is a job's."""

    def is_frame(self, number: int, /) -> bool:
        """Whether a number is that of a dataset that was only ever in memory."""

    def how(self, edge: int, /) -> How:
        """What an edge says."""

    def first(self, numbers: Iterable[int], /) -> int:
        """Of several nodes the one whose name comes first."""

    def parent(self, number: int, /) -> int:
        """The job that started a job; itself if none did."""

    def children(self) -> Mapping[int, Sequence[int]]:
        """The jobs that were started by others, by those."""


class Lens:
    """Neighbours of nodes in a graph, seen in one way."""

    def __init__(self, graph: Lineages, sight: Sight | None = None) -> None:
        self.graph = graph
        self.sight = sight or Sight()
        self._is_plain = self.sight.as_of is None and self.sight.roll_up == "none"

    def seen_as(self, number: int) -> int:
        """The node that a node is shown as."""
        parent = self.graph.parent
        if self.sight.roll_up == "none" or parent(number) == number:
            return number
        if self.sight.roll_up == "parent":
            return number if number in self.graph.children() else parent(number)
        passed = {number}
        while parent(number) not in passed:
            number = parent(number)
            passed.add(number)
        # In a circle of parents all are the first of them.
        return number if parent(number) == number else self.graph.first(self._circle(number))

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
        members, pending = {number: None}, [number]
        while pending:
            for child in children.get(pending.pop(), ()):
                if child not in members:
                    members[child] = None
                    pending.append(child)
        return members

    def _circle(self, number: int) -> set[int]:
        circle = {number}
        while (number := self.graph.parent(number)) not in circle:
            circle.add(number)
        return circle
