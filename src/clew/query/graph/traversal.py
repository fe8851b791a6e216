"""Traversal of job, column and run graphs: breadth-first search and shortest paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, Protocol

from msgspec import Struct, structs

from clew.index.backends.base import Row
from clew.index.queries.entities import consumers_after, find_run, list_child_runs, list_run_io, producer_before
from clew.index.queries.reader import IndexReader
from clew.query.graph.column_graph import AdjacentColumn, Transformation
from clew.query.graph.nodes import Column
from clew.query.graph.view import JobGraphView, RollUp
from clew.query.model import DatasetName, EdgeType
from clew.query.names import UnknownNameError
from clew.query.upstream import SUBTYPE_RANK

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


_MAX_READERS = 100
_MAX_ANCESTORS = 50


class VisitedRun(Struct, frozen=True):
    """A visited run; `distance` is negative upstream."""

    run_uuid: str
    distance: int
    row: Row


class RunEdge(Struct, frozen=True):
    """An edge from the run that wrote a dataset to a run that read it."""

    writer: str
    reader: str
    dataset: DatasetName
    version: str | None


class RunTraversal(Struct, frozen=True):
    """Result of a traversal, nearest runs first."""

    runs: tuple[VisitedRun, ...]
    edges: tuple[RunEdge, ...]
    is_truncated: bool


def require_run(index: IndexReader, run_uuid: str) -> Row:
    """Return the row of a run; raise if it does not exist."""
    row = find_run(index, run_uuid)
    if row is None:
        raise UnknownNameError(
            f"There is no run {run_uuid!r}.", hint="Pass the runId of its events; `clew runs` lists recent runs."
        )
    return row


def traverse_runs(
    index: IndexReader,
    run_uuid: str,
    direction: Direction = "upstream",
    *,
    depth: int = 20,
    limit: int = 500,
    roll_up: RollUp = "none",
) -> RunTraversal:
    """Traverse from a run to other runs; with `roll_up`, replace each by its parent or root run."""
    traversal = _RunTraverser(index, limit)
    start = require_run(index, run_uuid)
    starts = [start]
    if roll_up != "none" or not list_run_io(index, run_uuid):
        # A run without inputs and outputs is represented by its child runs.
        starts += list_child_runs(index, run_uuid, limit)
    for name, is_forward in (("upstream", False), ("downstream", True)):
        if direction in (name, "both"):
            traversal.traverse(starts, depth, is_forward=is_forward)
    return traversal.result(roll_up)


class _RunTraverser:
    def __init__(self, index: IndexReader, limit: int) -> None:
        self._index, self._limit = index, limit
        self._runs: dict[str, VisitedRun] = {}
        self._edges: dict[RunEdge, None] = {}
        self._is_truncated = False

    def traverse(self, starts: list[Row], depth: int, *, is_forward: bool) -> None:
        frontier = starts
        for start in starts:
            self._visit(start, 0)
        seen = {start["run_uuid"] for start in starts}
        for distance in range(1, depth + 1):
            next_frontier = []
            for run in frontier:
                for other, edge in self._readers(run) if is_forward else self._writers(run):
                    if self._visit(other, distance if is_forward else -distance):
                        self._edges[edge] = None
                        if other["run_uuid"] not in seen:
                            seen.add(other["run_uuid"])
                            next_frontier.append(other)
            frontier = next_frontier

    def result(self, roll_up: RollUp) -> RunTraversal:
        if roll_up == "none":
            return RunTraversal(tuple(self._runs.values()), tuple(self._edges), self._is_truncated)
        shown_runs = {name: self._ancestor(run.row, roll_up) for name, run in self._runs.items()}
        runs: dict[str, VisitedRun] = {}
        for name, run in self._runs.items():
            row = shown_runs[name]
            runs.setdefault(row["run_uuid"], VisitedRun(row["run_uuid"], run.distance, row))
        edges = {
            RunEdge(
                shown_runs[edge.writer]["run_uuid"], shown_runs[edge.reader]["run_uuid"], edge.dataset, edge.version
            ): None
            for edge in self._edges
        }
        return RunTraversal(
            tuple(runs.values()), tuple(edge for edge in edges if edge.writer != edge.reader), self._is_truncated
        )

    def _visit(self, run: Row, distance: int) -> bool:
        if run["run_uuid"] in self._runs:
            return True
        if len(self._runs) >= self._limit:
            self._is_truncated = True
            return False
        self._runs[run["run_uuid"]] = VisitedRun(run["run_uuid"], distance, run)
        return True

    def _writers(self, run: Row) -> Iterator[tuple[Row, RunEdge]]:
        for read in list_run_io(self._index, run["run_uuid"]):
            if read["direction"] == "INPUT":
                writer = producer_before(self._index, read, run)
                if writer is not None:
                    yield writer, _edge(writer, run, read)

    def _readers(self, run: Row) -> Iterator[tuple[Row, RunEdge]]:
        for written in list_run_io(self._index, run["run_uuid"]):
            if written["direction"] == "OUTPUT":
                for reader in consumers_after(self._index, written, run, _MAX_READERS):
                    yield reader, _edge(run, reader, written)

    def _ancestor(self, run: Row, roll_up: RollUp) -> Row:
        visited = {run["run_uuid"]}
        for _ in range(1 if roll_up == "parent" else _MAX_ANCESTORS):
            name = run["parent_run_uuid"]
            parent = None if name is None or name in visited else find_run(self._index, name)
            if parent is None:
                break
            visited.add(name)
            run = parent
        return run


def _edge(writer: Row, reader: Row, io: Row) -> RunEdge:
    dataset = DatasetName(io["dataset_namespace"], io["dataset_name"])
    return RunEdge(writer["run_uuid"], reader["run_uuid"], dataset, io["dataset_version"] or None)
