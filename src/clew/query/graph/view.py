"""View of the job graph: as of a time, with child jobs rolled up, without in-memory frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from clew.query.graph.job_graph import JobEdgeKind, JobGraph, LazyJobGraph

RollUp = Literal["none", "parent", "root"]


class ViewOptions(Struct, frozen=True):
    """Options of a job graph view.

    `as_of`, in epoch microseconds: only edges reported by then. `roll_up`: show each job without children as its
    parent, or all jobs as their root. Unless `include_frames`, in-memory DataFrames are traversed but not returned.
    """

    as_of: int | None = None
    roll_up: RollUp = "none"
    include_frames: bool = False


class JobGraphView:
    """Neighbours in a job graph, after applying view options."""

    def __init__(self, graph: JobGraph | LazyJobGraph, options: ViewOptions | None = None) -> None:
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
            return self.graph.ends_of(number, is_forward=is_forward)
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
        kind = self.graph.edge_kind(start, end)
        if kind is None and self.graph.is_job(start) != self.graph.is_job(end) and self.options.roll_up != "none":
            return "READ" if self.graph.is_job(end) else "WRITE"
        return kind

    def _may_touch_frames(self, number: int) -> bool:
        """Check whether a node may have frame neighbours; stored datasets have only jobs."""
        return not self.options.include_frames and (self.graph.is_job(number) or self.graph.is_frame(number))

    def _ends(self, number: int, *, is_forward: bool) -> Iterable[int]:
        as_of = self.options.as_of
        for member in self._members(number):
            ends: Iterable[int] = self.graph.ends_of(member, is_forward=is_forward)
            if as_of is not None:
                dated = self.graph.dated_ends_of(member, is_forward=is_forward)
                ends = [end for end, first_seen in dated if first_seen <= as_of]
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
