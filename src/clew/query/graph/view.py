"""View of the job graph: as of a time, with child jobs rolled up, without in-memory frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from clew.query.graph.job_graph import JobEdgeKind
from clew.query.graph.nodes import Node

RollUp = Literal["none", "parent", "root"]


class ViewOptions(Struct, frozen=True):
    """Options of a job graph view.

    `as_of`, in epoch microseconds: only edges reported by then. `roll_up`: show each job without children as its
    parent, or all jobs as their root. Unless `include_frames`, in-memory DataFrames are traversed but not returned.
    """

    as_of: int | None = None
    roll_up: RollUp = "none"
    include_frames: bool = False


class AdjacencyProtocol(Protocol):
    """Edges of nodes in one direction."""

    def ends_of(self, node: int, /) -> Sequence[int]:
        """Return the neighbours of a node, sorted by name."""

    def edges_of(self, node: int, /) -> Sequence[int]:
        """Return the edge numbers of a node, in the order of `ends_of`."""

    def edge_to(self, node: int, end: int, /) -> int | None:
        """Return the number of the edge between two nodes, if there is one."""


class JobGraphProtocol(Protocol):
    """A graph of jobs and datasets."""

    @property
    def forward(self) -> AdjacencyProtocol:
        """Edges along the data flow."""

    @property
    def backward(self) -> AdjacencyProtocol:
        """Edges against the data flow."""

    @property
    def first_seen(self) -> Sequence[int]:
        """Time of the first event that reported each edge, in epoch microseconds."""

    def find(self, node: Node, /) -> int | None:
        """Return the number of a job or dataset; None if it has no lineage."""

    def node(self, number: int, /) -> Node:
        """Return the job or dataset with a number."""

    def is_job(self, number: int, /) -> bool:
        """Check whether a node is a job."""

    def is_frame(self, number: int, /) -> bool:
        """Check whether a node is an in-memory DataFrame."""

    def edge_kind(self, edge: int, /) -> JobEdgeKind:
        """Return the kind of an edge."""

    def first_by_name(self, numbers: Iterable[int], /) -> int:
        """Return the first node by name."""

    def parent(self, number: int, /) -> int:
        """Return the parent job of a job, or the job itself."""

    def children(self, number: int, /) -> Sequence[int]:
        """Return the child jobs of a job."""


class JobGraphView:
    """Neighbours in a job graph, after applying view options."""

    def __init__(self, graph: JobGraphProtocol, options: ViewOptions | None = None) -> None:
        self.graph = graph
        self.options = options or ViewOptions()
        self._is_unfiltered = self.options.as_of is None and self.options.roll_up == "none"

    def representative(self, number: int) -> int:
        """Return the node that represents a node after roll-up."""
        parent = self.graph.parent
        if self.options.roll_up == "none" or parent(number) == number:
            return number
        if self.options.roll_up == "parent":
            return number if self.graph.children(number) else parent(number)
        visited = {number}
        while parent(number) not in visited:
            number = parent(number)
            visited.add(number)
        # All jobs in a cycle of parents are represented by the first of them.
        return number if parent(number) == number else self.graph.first_by_name(self._parent_cycle(number))

    def neighbours(self, number: int, *, is_forward: bool) -> Sequence[int]:
        """Return the distinct nodes that a node feeds (`is_forward`) or is fed by, skipping hidden frames."""
        if self._is_unfiltered and not self._may_touch_frames(number):
            return (self.graph.forward if is_forward else self.graph.backward).ends_of(number)
        neighbours: dict[int, None] = {}
        visited: set[int] = set()
        pending = [number]
        while pending:
            for end in self._ends(pending.pop(), is_forward=is_forward):
                if not self.options.include_frames and self.graph.is_frame(end):
                    if end not in visited:
                        visited.add(end)
                        pending.append(end)
                elif end != number:
                    neighbours[end] = None
        return list(neighbours)

    def first_by_name(self, numbers: Iterable[int]) -> int:
        """Return the first node by name."""
        return self.graph.first_by_name(numbers)

    def edge_kind(self, start: int, end: int) -> JobEdgeKind | None:
        """Return the kind of the edge between two nodes; None if hidden frames are in between."""
        edge = self.graph.forward.edge_to(start, end)
        if edge is not None:
            return self.graph.edge_kind(edge)
        if self.graph.is_job(start) != self.graph.is_job(end) and self.options.roll_up != "none":
            return "READ" if self.graph.is_job(end) else "WRITE"
        return None

    def _may_touch_frames(self, number: int) -> bool:
        """Check whether a node may have frame neighbours; stored datasets have only jobs."""
        return not self.options.include_frames and (self.graph.is_job(number) or self.graph.is_frame(number))

    def _ends(self, number: int, *, is_forward: bool) -> Iterable[int]:
        adjacency = self.graph.forward if is_forward else self.graph.backward
        for member in self._members(number):
            ends: Iterable[int] = adjacency.ends_of(member)
            if self.options.as_of is not None:
                first_seen, as_of = self.graph.first_seen, self.options.as_of
                edges = zip(ends, adjacency.edges_of(member), strict=True)
                ends = (end for end, edge in edges if first_seen[edge] <= as_of)
            yield from ends if self.options.roll_up == "none" else map(self.representative, ends)

    def _members(self, number: int) -> Iterable[int]:
        """Return all nodes represented by a node."""
        if self.options.roll_up == "none":
            return (number,)
        children = self.graph.children
        if self.options.roll_up == "parent":
            return (number, *(child for child in children(number) if not children(child)))
        members, pending = {number: None}, [number]
        while pending:
            for child in children(pending.pop()):
                if child not in members:
                    members[child] = None
                    pending.append(child)
        return members

    def _parent_cycle(self, number: int) -> set[int]:
        cycle = {number}
        while (number := self.graph.parent(number)) not in cycle:
            cycle.add(number)
        return cycle
