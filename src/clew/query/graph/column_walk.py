"""Traverse column lineage upstream or downstream over DIRECT and INDIRECT edges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

from msgspec import Struct, structs

from clew.query.folding import SUBTYPE_RANK
from clew.query.graph.columns import AdjacentColumn, Transformation
from clew.query.graph.nodes import Column
from clew.query.graph.walk import Direction
from clew.query.model import EdgeType

# What to do at the end of an INDIRECT edge. `report`: return the column and stop, otherwise almost everything would be
# upstream of everything. `follow`: continue over DIRECT edges.
IndirectPolicy = Literal["report", "follow"]


class ColumnGraphProtocol(Protocol):
    """A column graph."""

    def columns_of(self, namespace: str, dataset: str) -> Iterable[int]:
        """Return the numbers of all columns of a dataset, and of its dataset-level node."""

    def column(self, number: int) -> Column:
        """Return the column with a number."""

    def is_dataset_level(self, number: int) -> bool:
        """Check whether a node is dataset-level."""

    def is_frame(self, number: int) -> bool:
        """Check whether a node belongs to an in-memory DataFrame."""

    def adjacent_columns(self, number: int, *, is_forward: bool) -> Iterator[AdjacentColumn]:
        """Yield the edges from a column (`is_forward`) or into it."""


class VisitedColumn(Struct, frozen=True):
    """A visited column; DIRECT if all edges to it are. `distance` is negative upstream."""

    number: int
    distance: int
    dependency_type: EdgeType


class TraversedEdge(Struct, frozen=True):
    """An edge along the data flow, and its job."""

    start: int
    end: int
    transformation: Transformation
    job: tuple[str, str] | None


class ColumnTraversal(Struct, frozen=True):
    """Visited columns, nearest first, and traversed edges."""

    columns: tuple[VisitedColumn, ...]
    edges: tuple[TraversedEdge, ...]
    is_truncated: bool


def traverse_columns(
    graph: ColumnGraphProtocol,
    start: Iterable[int],
    direction: Direction = "upstream",
    *,
    depth: int = 20,
    limit: int = 1000,
    indirect: IndirectPolicy = "report",
    include_frames: bool = False,
) -> ColumnTraversal:
    """Traverse from columns up to `depth` hops and `limit` columns, passing through in-memory frames."""
    directions = {"upstream": (False,), "downstream": (True,), "both": (False, True)}[direction]
    traversal = _Traversal(
        graph, tuple(start), limit, follow_indirect=indirect == "follow", include_frames=include_frames
    )
    for is_forward in directions:
        traversal.run(depth, is_forward=is_forward)
    return traversal.result()


class _Traversal:
    def __init__(
        self,
        graph: ColumnGraphProtocol,
        start: tuple[int, ...],
        limit: int,
        *,
        follow_indirect: bool,
        include_frames: bool,
    ) -> None:
        self._graph, self._start, self._limit = graph, start, max(limit, len(start))
        self._follow_indirect, self._include_frames = follow_indirect, include_frames
        self._visited: dict[int, VisitedColumn] = {number: VisitedColumn(number, 0, "DIRECT") for number in start}
        self._edges: dict[TraversedEdge, None] = {}
        self._is_truncated = False

    def result(self) -> ColumnTraversal:
        return ColumnTraversal(tuple(self._visited.values()), tuple(self._edges), self._is_truncated)

    def run(self, depth: int, *, is_forward: bool) -> None:
        # A column is expanded at most twice: once as reached directly, once as reached indirectly.
        frontier: list[tuple[int, EdgeType]] = [(number, "DIRECT") for number in self._start]
        seen = set(frontier)
        for distance in range(1, depth + 1):
            next_frontier: list[tuple[int, EdgeType]] = []
            for number, dependency_type in frontier:
                for neighbour in self._neighbours(number, dependency_type, is_forward=is_forward):
                    reached_type: EdgeType = (
                        "DIRECT" if dependency_type == neighbour.transformation.type == "DIRECT" else "INDIRECT"
                    )
                    if not self._visit(neighbour.end, distance if is_forward else -distance, reached_type):
                        continue
                    pair = (number, neighbour.end) if is_forward else (neighbour.end, number)
                    self._edges[TraversedEdge(*pair, neighbour.transformation, neighbour.job)] = None
                    if (neighbour.end, reached_type) not in seen:
                        seen.add((neighbour.end, reached_type))
                        next_frontier.append((neighbour.end, reached_type))
            frontier = next_frontier

    def _visit(self, number: int, distance: int, dependency_type: EdgeType) -> bool:
        visited = self._visited.get(number)
        if visited is None:
            if len(self._visited) >= self._limit:
                self._is_truncated = True
                return False
            self._visited[number] = VisitedColumn(number, distance, dependency_type)
        elif dependency_type == "DIRECT" and visited.dependency_type != "DIRECT":
            self._visited[number] = structs.replace(visited, dependency_type=dependency_type)
        return True

    def _neighbours(self, number: int, dependency_type: EdgeType, *, is_forward: bool) -> Iterator[AdjacentColumn]:
        """Yield the edges to follow from a column that was reached with a dependency type."""
        if dependency_type == "INDIRECT" and not self._follow_indirect:
            return
        for neighbour in self._through_frames(number, is_forward=is_forward):
            # INDIRECT after INDIRECT is not followed.
            if dependency_type == "DIRECT" or neighbour.transformation.type == "DIRECT":
                yield neighbour

    def _through_frames(self, number: int, *, is_forward: bool) -> Iterator[AdjacentColumn]:
        visited: set[tuple[int, EdgeType]] = set()
        pending = [
            edge
            for member in self._members(number, is_forward=is_forward)
            for edge in self._adjacent(member, is_forward)
        ]
        while pending:
            edge = pending.pop(0)
            if self._include_frames or not self._graph.is_frame(edge.end):
                yield edge
                continue
            frame = edge.end, edge.transformation.type
            if frame in visited:
                continue
            visited.add(frame)
            for member in self._members(edge.end, is_forward=is_forward):
                for following in self._adjacent(member, is_forward):
                    transformation = compose_transformations(edge.transformation, following.transformation)
                    if transformation is not None:
                        pending.append(structs.replace(following, transformation=transformation, job=edge.job))

    def _adjacent(self, number: int, is_forward: bool) -> Iterator[AdjacentColumn]:  # noqa: FBT001
        return self._graph.adjacent_columns(number, is_forward=is_forward)

    def _members(self, number: int, *, is_forward: bool) -> Iterable[int]:
        """Expand a dataset-level node downstream to all columns, which depend on it."""
        if not is_forward or not self._graph.is_dataset_level(number):
            return (number,)
        column = self._graph.column(number)
        return self._graph.columns_of(column.namespace, column.dataset)


def compose_transformations(near: Transformation, far: Transformation) -> Transformation | None:
    """Compose two transformations; None if both are INDIRECT."""
    if near.type == far.type == "INDIRECT":
        return None
    if near.type != far.type:
        return near if near.type == "INDIRECT" else far
    return max(near, far, key=lambda transformation: SUBTYPE_RANK.get(transformation.subtype, 0))
