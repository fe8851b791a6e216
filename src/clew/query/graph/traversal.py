"""Traversal of job, column and run graphs: breadth-first search and shortest paths.

INDIRECT lineage (a filter, a join key) is reported. INDIRECT after INDIRECT is never followed, otherwise almost
everything would be upstream of everything; DIRECT after INDIRECT only if the caller asks for it (`IndirectPolicy`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from msgspec import Struct, structs

from clew.index.queries.reader import IndexReader
from clew.index.queries.records import RunIoRecord, RunRecord
from clew.query.graph.column_graph import AdjacentColumn
from clew.query.graph.nodes import Column
from clew.query.graph.view import JobGraphView, RollUp
from clew.query.model import DatasetName, EdgeType, Transformation
from clew.query.names import require_run

Direction = Literal["upstream", "downstream", "both"]
MAX_HOPS: Final = 100
MAX_NODES: Final = 10_000
# Limits of a traversal of everything that is reachable.
UNLIMITED: Final = 2**62
_IS_FORWARD: Final[Mapping[Direction, tuple[bool, ...]]] = {
    "upstream": (False,),
    "downstream": (True,),
    "both": (False, True),
}

S = TypeVar("S", bound=Hashable)
N = TypeVar("N", bound=Hashable)
E = TypeVar("E", bound=Hashable)


class Traversal(Struct, Generic[N, E], frozen=True):
    """Distance of each visited node, nearest first and negative upstream, and the traversed edges."""

    distances: dict[N, int]
    edges: tuple[E, ...]
    is_truncated: bool


# Columns that all depend on all columns of a source have more edges than an answer can have.
MAX_EDGES: Final = 50_000


def breadth_first(
    starts: Mapping[S, N],
    expand: Callable[[S, bool], Iterable[tuple[S, N, E | None]]],
    direction: Direction,
    *,
    depth: int,
    limit: int,
) -> Traversal[N, E]:
    """Traverse from the start states up to `depth` hops, `limit` nodes and `MAX_EDGES` edges.

    `expand` yields the next states, with their nodes and edges. A node can have several states: each is expanded once
    per direction. `both` combines the upstream and the downstream traversal of the start; siblings are in neither.
    """
    distances = dict.fromkeys(starts.values(), 0)
    edges: dict[E, None] = {}
    is_truncated = False
    seen = {is_forward: set(starts) for is_forward in _IS_FORWARD[direction]}
    frontiers = {is_forward: list(starts) for is_forward in seen}
    for distance in range(1, depth + 1):
        for is_forward, frontier in frontiers.items():
            reached: list[S] = []
            for state in takewhile(lambda _: len(edges) < MAX_EDGES, frontier):
                for next_state, node, edge in expand(state, is_forward):
                    if node not in distances:
                        if len(distances) >= limit:
                            is_truncated = True
                            continue
                        distances[node] = distance if is_forward else -distance
                    if edge is not None:
                        edges[edge] = None
                    if next_state not in seen[is_forward]:
                        seen[is_forward].add(next_state)
                        reached.append(next_state)
            frontiers[is_forward] = reached
        if not any(frontiers.values()):
            break
    return Traversal(distances, tuple(edges), is_truncated or len(edges) >= MAX_EDGES)


class VisitedNode(Struct, frozen=True):
    """A visited node. `distance` is negative upstream; `hidden_*` count neighbours that were not visited."""

    number: int
    distance: int
    hidden_upstream: int
    hidden_downstream: int


class NodeTraversal(Struct, frozen=True):
    """Visited nodes, nearest first, and all edges between them."""

    nodes: tuple[VisitedNode, ...]
    edges: tuple[tuple[int, int], ...]
    is_truncated: bool


def traverse(
    view: JobGraphView,
    start: int,
    direction: Direction = "both",
    *,
    depth: int = 20,
    limit: int = 1000,
    max_neighbours: int | None = None,
) -> NodeTraversal:
    """Traverse from a job or dataset, to at most `max_neighbours` of each node."""

    def expand(number: int, is_forward: bool) -> Iterable[tuple[int, int, None]]:  # noqa: FBT001
        ends = view.neighbours(number, is_forward=is_forward)
        return ((end, end, None) for end in (ends if max_neighbours is None else ends[:max_neighbours]))

    start = view.representative(start)
    traversal: Traversal[int, None] = breadth_first({start: start}, expand, direction, depth=depth, limit=limit)
    return connect_nodes(view, traversal.distances, is_truncated=traversal.is_truncated)


def traverse_neighbourhood(view: JobGraphView, start: int, *, depth: int, limit: int) -> NodeTraversal:
    """Traverse from a job or dataset along and against the data flow at each node, siblings included."""

    def expand(number: int, _: bool) -> Iterator[tuple[int, int, None]]:  # noqa: FBT001
        for is_forward in (False, True):
            yield from ((end, end, None) for end in view.neighbours(number, is_forward=is_forward))

    traversal: Traversal[int, None] = breadth_first({start: start}, expand, "downstream", depth=depth, limit=limit)
    return connect_nodes(view, traversal.distances, is_truncated=traversal.is_truncated)


def connect_nodes(view: JobGraphView, distances: Mapping[int, int], *, is_truncated: bool = False) -> NodeTraversal:
    """Add the edges between nodes and count their other neighbours."""
    sources = {number: view.neighbours(number, is_forward=False) for number in distances}
    edges = tuple((source, number) for number, ends in sources.items() for source in ends if source in distances)
    source_counts, target_counts = dict.fromkeys(distances, 0), dict.fromkeys(distances, 0)
    for source, target in edges:
        source_counts[target] += 1
        target_counts[source] += 1
    nodes = tuple(
        VisitedNode(
            number,
            distance,
            len(sources[number]) - source_counts[number],
            len(view.neighbours(number, is_forward=True)) - target_counts[number],
        )
        for number, distance in distances.items()
    )
    return NodeTraversal(nodes, edges, is_truncated)


class PathView(Protocol):
    """Neighbours of the nodes of a graph."""

    def neighbours(self, number: int, *, is_forward: bool) -> Sequence[int]:
        """Return the nodes that a node feeds (`is_forward`) or is fed by."""

    def first_by_name(self, numbers: Iterable[int], /) -> int:
        """Return the first node by name."""


def find_shortest_path(view: PathView, start: int, end: int, *, max_nodes: int = 500_000) -> tuple[int, ...] | None:
    """Find a shortest path along the data flow by bidirectional search of at most about `max_nodes` nodes."""
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
            return _join_paths(predecessors, view.first_by_name(meeting))
    return None


def _join_paths(predecessors: dict[bool, dict[int, int]], meeting: int) -> tuple[int, ...]:
    head, tail = list(_trace_back(predecessors[True], meeting)), list(_trace_back(predecessors[False], meeting))
    return (*reversed(head), *tail[1:])


def _trace_back(predecessors: dict[int, int], number: int) -> Iterator[int]:
    yield number
    while predecessors[number] != number:
        number = predecessors[number]
        yield number


# OpenLineage: of several transformations along a path the strongest one names the result.
_SUBTYPE_RANK = {None: 0, "IDENTITY": 1, "TRANSFORMATION": 2, "AGGREGATION": 3}


def compose_transformations(near: Transformation, far: Transformation) -> Transformation | None:
    """Compose the transformations of two consecutive edges; None if both are INDIRECT, which is not followed."""
    if near.type == far.type == "INDIRECT":
        return None
    if near.type != far.type:
        return near if near.type == "INDIRECT" else far
    return max(near, far, key=lambda transformation: _SUBTYPE_RANK.get(transformation.subtype, 0))


# What to do at the end of an INDIRECT edge. `report`: return the column and stop. `follow`: continue over DIRECT edges.
IndirectPolicy = Literal["report", "follow"]
IsHidden = Callable[[int], bool]


class AdjacentColumns(Protocol):
    """Edges between columns: cached, read from the index, as of a time, or of one run."""

    def adjacent_columns(self, number: int, *, is_forward: bool) -> Iterable[AdjacentColumn]:
        """Yield the edges from a column (`is_forward`) or into it.

        Those of its dataset-level node apply to it. Downstream, a dataset-level node has those of all its columns.
        """


class ColumnGraphProtocol(AdjacentColumns, Protocol):
    """A column graph."""

    def find(self, column: Column, /) -> int | None:
        """Return the number of a column, or of a dataset-level node; None without lineage."""

    def columns_of(self, namespace: str, dataset: str, /) -> Sequence[int]:
        """Return the numbers of all columns of a dataset, and of its dataset-level node."""

    def column(self, number: int, /) -> Column:
        """Return the column with a number."""

    def is_frame(self, number: int, /) -> bool:
        """Check whether a node belongs to an in-memory DataFrame."""


def locate_columns(graph: ColumnGraphProtocol, target: Column) -> tuple[ColumnGraphProtocol, Sequence[int]]:
    """Return the numbers of a column, or of all columns of a dataset, and the graph that has them."""
    if target.column is None:
        return graph, graph.columns_of(target.namespace, target.dataset)
    number = graph.find(target)
    if number is not None:
        return graph, [number]
    dataset_node = graph.find(Column(target.namespace, target.dataset))
    if dataset_node is None:
        return graph, []
    extended = _WithColumn(graph, target.column, dataset_node)
    return extended, [extended.number]


class _WithColumn:
    """Graph with one more node: a column that has only the edges of its dataset-level node."""

    def __init__(self, graph: ColumnGraphProtocol, column: str, dataset_node: int) -> None:
        self._graph, self._dataset_node = graph, dataset_node
        self.number: int = graph.number - 1 if isinstance(graph, _WithColumn) else -1
        self._column = structs.replace(graph.column(dataset_node), column=column)

    def find(self, column: Column) -> int | None:
        return self.number if column == self._column else self._graph.find(column)

    def columns_of(self, namespace: str, dataset: str) -> Sequence[int]:
        return self._graph.columns_of(namespace, dataset)

    def column(self, number: int) -> Column:
        return self._column if number == self.number else self._graph.column(number)

    def is_frame(self, number: int) -> bool:
        return self._graph.is_frame(self._dataset_node if number == self.number else number)

    def adjacent_columns(self, number: int, *, is_forward: bool) -> Iterable[AdjacentColumn]:
        if number != self.number:
            return self._graph.adjacent_columns(number, is_forward=is_forward)
        edges = self._graph.adjacent_columns(self._dataset_node, is_forward=is_forward)
        # Downstream, the dataset-level node has the edges of all columns.
        return (edge for edge in edges if not is_forward or self._has_source(edge.end))

    def _has_source(self, number: int) -> bool:
        edges = self._graph.adjacent_columns(number, is_forward=False)
        return any(edge.end == self._dataset_node for edge in edges)


class VisitedColumn(Struct, frozen=True):
    """A visited column; DIRECT if all edges on a path to it are. `distance` is negative upstream."""

    number: int
    distance: int
    dependency_type: EdgeType


class TraversedEdge(Struct, frozen=True):
    """An edge along the data flow with its job and origin, and the edges over hidden columns that it stands for.

    `path` is the composition of the transformations from the start of the traversal.
    """

    start: int
    end: int
    transformation: Transformation
    job: tuple[str, str] | None
    origin: Any
    via: tuple[AdjacentColumn, ...]
    path: Transformation


class ColumnTraversal(Struct, frozen=True):
    """Visited columns, nearest first, and traversed edges."""

    columns: tuple[VisitedColumn, ...]
    edges: tuple[TraversedEdge, ...]
    is_truncated: bool


_START = Transformation("DIRECT")
# A column, and the subtype of the INDIRECT edge on the path to it; None if the path is DIRECT.
_ColumnState = tuple[int, str | None]


def traverse_columns(
    graph: AdjacentColumns,
    starts: Iterable[int],
    direction: Direction = "upstream",
    *,
    depth: int = 20,
    limit: int = 1000,
    indirect: IndirectPolicy = "report",
    is_hidden: IsHidden | None = None,
) -> ColumnTraversal:
    """Traverse from columns, passing through hidden ones."""
    types: dict[int, EdgeType] = {}

    def expand(state: _ColumnState, is_forward: bool) -> Iterator[tuple[_ColumnState, int, TraversedEdge]]:  # noqa: FBT001
        number, indirect_subtype = state
        if indirect_subtype is not None and indirect == "report":
            return
        path = _START if indirect_subtype is None else Transformation("INDIRECT", indirect_subtype)
        for edge in visible_edges(graph, number, is_hidden, is_forward=is_forward):
            composed = compose_transformations(path, edge.transformation)
            if composed is not None:
                ends = (number, edge.end) if is_forward else (edge.end, number)
                traversed = TraversedEdge(*ends, edge.transformation, edge.job, edge.origin, edge.via, composed)
                is_direct = composed.type == "DIRECT"
                if is_direct or edge.end not in types:
                    types[edge.end] = composed.type
                yield (edge.end, None if is_direct else composed.subtype or ""), edge.end, traversed

    starts = dict.fromkeys(starts)
    states: dict[_ColumnState, int] = {(number, None): number for number in starts}
    traversal = breadth_first(states, expand, direction, depth=depth, limit=max(limit, len(states)))
    columns = tuple(
        VisitedColumn(number, distance, "DIRECT" if number in starts else types[number])
        for number, distance in traversal.distances.items()
    )
    return ColumnTraversal(columns, traversal.edges, traversal.is_truncated)


def visible_edges(
    graph: AdjacentColumns, number: int, is_hidden: IsHidden | None, *, is_forward: bool
) -> Iterator[AdjacentColumn]:
    """Yield the edges of a column to visible columns, composed over hidden ones."""
    visited: set[tuple[int, EdgeType]] = set()
    pending = list(graph.adjacent_columns(number, is_forward=is_forward))
    for edge in pending:
        if is_hidden is None or not is_hidden(edge.end):
            yield edge
        elif (edge.end, edge.transformation.type) not in visited:
            visited.add((edge.end, edge.transformation.type))
            for following in graph.adjacent_columns(edge.end, is_forward=is_forward):
                transformation = compose_transformations(edge.transformation, following.transformation)
                if transformation is not None:
                    via = (*(edge.via or (edge,)), following)
                    pending.append(AdjacentColumn(following.end, transformation, edge.job, edge.origin, via))


class DirectColumnView:
    """Columns connected by DIRECT edges, as `PathView`."""

    def __init__(self, graph: ColumnGraphProtocol, is_hidden: IsHidden | None) -> None:
        self._graph, self._is_hidden = graph, is_hidden

    def neighbours(self, number: int, *, is_forward: bool) -> Sequence[int]:
        """Return the columns at the other end of DIRECT edges."""
        return list(dict.fromkeys(edge.end for edge in self._direct_edges(number, is_forward=is_forward)))

    def first_by_name(self, numbers: Iterable[int]) -> int:
        """Return the first column by name."""
        return min(numbers, key=lambda number: self._graph.column(number).id)

    def edge(self, start: int, end: int) -> AdjacentColumn:
        """Return an edge between two neighbours. That into the dataset-level node of `end` is found from `end` only."""
        return next(
            edge
            for number, other, is_forward in ((start, end, True), (end, start, False))
            for edge in self._direct_edges(number, is_forward=is_forward)
            if edge.end == other
        )

    def _direct_edges(self, number: int, *, is_forward: bool) -> Iterator[AdjacentColumn]:
        edges = visible_edges(self._graph, number, self._is_hidden, is_forward=is_forward)
        return (edge for edge in edges if edge.transformation.type == "DIRECT")


_MAX_READERS = 100
_MAX_ANCESTORS = 50


class VisitedRun(Struct, frozen=True):
    """A visited run; `distance` is negative upstream."""

    run: RunRecord
    distance: int


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


def traverse_runs(
    index: IndexReader,
    run_uuid: str,
    direction: Direction = "upstream",
    *,
    depth: int = 20,
    limit: int = 500,
    roll_up: RollUp = "none",
    include_children: bool = True,
) -> RunTraversal:
    """Traverse from a run to other runs; with `roll_up`, replace each by its parent or root run.

    If `include_children`, a run without inputs and outputs is represented by its child runs.
    """
    records = {run_uuid: require_run(index, run_uuid)}
    if include_children and (roll_up != "none" or not index.io_of([run_uuid])):
        records |= {record.run_uuid: record for record in index.children(run_uuid, limit)[0]}

    def expand(name: str, is_forward: bool) -> Iterator[tuple[str, str, RunEdge]]:  # noqa: FBT001
        for other, edge in (_readers if is_forward else _writers)(index, records[name]):
            records.setdefault(other.run_uuid, other)
            yield other.run_uuid, other.run_uuid, edge

    starts = {name: name for name in list(records)[:limit]}
    traversal = breadth_first(starts, expand, direction, depth=depth, limit=limit)
    shown = {name: _ancestor(index, records[name], roll_up) for name in traversal.distances}
    runs: dict[str, VisitedRun] = {}
    for name, distance in traversal.distances.items():
        run = shown[name]
        runs.setdefault(run.run_uuid, VisitedRun(run, distance))
    edges = dict.fromkeys(
        structs.replace(edge, writer=shown[edge.writer].run_uuid, reader=shown[edge.reader].run_uuid)
        for edge in traversal.edges
    )
    return RunTraversal(
        tuple(runs.values()),
        tuple(edge for edge in edges if roll_up == "none" or edge.writer != edge.reader),
        traversal.is_truncated,
    )


def _writers(index: IndexReader, run: RunRecord) -> Iterator[tuple[RunRecord, RunEdge]]:
    for io in index.io_of([run.run_uuid]).get(run.run_uuid, ()):
        writer = index.writer_of(io, run) if io.direction == "INPUT" else None
        if writer is not None:
            yield writer, _edge(writer, run, io)


def _readers(index: IndexReader, run: RunRecord) -> Iterator[tuple[RunRecord, RunEdge]]:
    for io in index.io_of([run.run_uuid]).get(run.run_uuid, ()):
        if io.direction == "OUTPUT":
            for reader in index.readers_of(io, run, _MAX_READERS):
                yield reader, _edge(run, reader, io)


def _ancestor(index: IndexReader, run: RunRecord, roll_up: RollUp) -> RunRecord:
    visited = {run.run_uuid}
    for _ in range({"none": 0, "parent": 1, "root": _MAX_ANCESTORS}[roll_up]):
        name = run.parent_run_uuid
        parent = None if name is None or name in visited else index.run(name)
        if parent is None:
            break
        visited.add(parent.run_uuid)
        run = parent
    return run


def _edge(writer: RunRecord, reader: RunRecord, io: RunIoRecord) -> RunEdge:
    return RunEdge(writer.run_uuid, reader.run_uuid, DatasetName(*io.dataset), io.version or None)
