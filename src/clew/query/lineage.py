"""Lineage, paths and impact of nodes and columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal

from msgspec import Struct, field, structs

from clew.errors import MalformedError
from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.queries.connection import IndexVersion
from clew.index.queries.reader import IndexReader
from clew.query.graph.column_graph import AdjacentColumn
from clew.query.graph.job_graph import JobGraph
from clew.query.graph.nodes import Column, Node
from clew.query.graph.traversal import (
    ColumnGraphProtocol,
    ColumnTraversal,
    DirectColumnView,
    Direction,
    PathView,
    TraversedEdge,
    find_shortest_path,
    locate_columns,
    traverse,
    traverse_columns,
    traverse_neighbourhood,
    traverse_runs,
)
from clew.query.graph.view import JobGraphView, ViewOptions
from clew.query.model import DatasetName, EdgeType, Transformation, is_intermediate_frame
from clew.query.names import ResolvedName

NodeType = Literal["dataset", "job", "column", "run"]
# MEMORY: through an in-memory frame that is not part of the result.
LineageEdgeKind = Literal["READ", "WRITE", "RENAME", "FEED", "DECLARED", "MEMORY", "DIRECT", "INDIRECT"]
# Versions of a frame at which an impact analysis starts.
_MAX_FRAME_VERSIONS: Final = 1_000


class IndexFreshness(Struct, frozen=True):
    """Freshness of a result: the last indexed log position and when it was indexed."""

    position: int
    at: str


class LineageNode(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node of a result. `distance` is negative upstream; `dependency_type` is set for columns.

    `hidden_upstream` and `hidden_downstream` count neighbours that are not in the result.
    """

    id: str
    kind: NodeType
    namespace: str
    name: str
    distance: int
    column: str | None = None
    dependency_type: EdgeType | None = None
    state: str | None = None
    hidden_upstream: int = 0
    hidden_downstream: int = 0


class LineageEdge(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An edge along the data flow; for columns with the transformation, for runs with the dataset."""

    start: str = field(name="from")
    end: str = field(name="to")
    kind: LineageEdgeKind
    subtype: str | None = None
    description: str | None = None
    is_masking: bool | None = None
    job: str | None = None
    dataset: str | None = None
    version: str | None = None


class LineageResult(Struct, frozen=True, rename="camel"):
    """Result of a traversal, nearest nodes first; truncated if there were more nodes than the limit."""

    start: str
    direction: Direction
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    is_truncated: bool
    indexed_up_to: IndexFreshness


class PathResult(Struct, frozen=True, rename="camel"):
    """A shortest path between two nodes in either direction of the data flow; no nodes if there is none."""

    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    direction: Direction | None
    indexed_up_to: IndexFreshness


class ColumnPath(Struct, frozen=True, rename="camel"):
    """A shortest path of DIRECT edges between two columns; no edges if there is none."""

    start: str
    end: str
    edges: tuple[LineageEdge, ...]
    is_found: bool


class ImpactedDataset(Struct, frozen=True, rename="camel"):
    """A dataset affected by a change: its affected columns, distance, and DIRECT or INDIRECT dependency."""

    dataset: DatasetName
    distance: int
    dependency_type: EdgeType
    columns: tuple[LineageNode, ...]
    jobs: tuple[str, ...]


class ImpactResult(Struct, frozen=True, rename="camel"):
    """Datasets affected by a change of a column or dataset, nearest first.

    `in_memory`: if it affects nothing but in-memory frames of notebooks, those that a variable holds.
    """

    start: str
    affected: tuple[ImpactedDataset, ...]
    direct: int
    indirect: int
    is_truncated: bool
    indexed_up_to: IndexFreshness
    in_memory: tuple[ImpactedDataset, ...] = ()


class TraversalLimits(Struct, frozen=True):
    """Maximum depth and number of nodes of a traversal."""

    depth: int = 20
    limit: int = 1000


def traverse_nodes(
    view: JobGraphView, node: Node, direction: Direction, limits: TraversalLimits, version: IndexVersion
) -> LineageResult:
    """Traverse the lineage of a dataset or job."""
    graph = view.graph
    start = graph.find(node)
    if start is None:
        node_only = LineageNode(node.id, node.kind, node.namespace, node.name, 0)
        return LineageResult(
            node.id, direction, (node_only,), (), is_truncated=False, indexed_up_to=_freshness(version)
        )
    traversal = traverse(view, start, direction, depth=limits.depth, limit=limits.limit)
    nodes = tuple(
        _to_node(graph.node(visited.number), visited.distance, visited.hidden_upstream, visited.hidden_downstream)
        for visited in traversal.nodes
    )
    edges = tuple(_to_edge(view, *edge) for edge in traversal.edges)
    return LineageResult(nodes[0].id, direction, nodes, edges, traversal.is_truncated, _freshness(version))


class Neighbourhood(Struct, frozen=True):
    """Jobs and datasets by number, and the edges between them."""

    nodes: dict[int, Node]
    edges: tuple[tuple[int, int], ...]


def find_neighbourhood(graph: JobGraph, node: Node, job_hops: int, limit: int) -> Neighbourhood | None:
    """Find the jobs within some hops from job to job in either direction, and their inputs and outputs."""
    view = JobGraphView(graph, ViewOptions(include_frames=True))
    start = graph.find(node)
    if start is None:
        return None
    # Each hop passes a dataset; the last step is to the inputs and outputs of a job.
    depth = 2 * job_hops + (1 if node.kind == "job" else 2)
    traversal = traverse_neighbourhood(view, start, depth=depth, limit=limit)
    return Neighbourhood(
        {visited.number: view.graph.node(visited.number) for visited in traversal.nodes}, traversal.edges
    )


def find_node_path(view: JobGraphView, start: Node, end: Node, version: IndexVersion) -> PathResult:
    """Find a shortest path between two jobs or datasets, in either direction."""
    numbers = (view.graph.find(node) for node in (start, end))
    ends = [None if number is None else view.representative(number) for number in numbers]
    path = _path_in_either_direction(view, ends)
    if path is None:
        return PathResult((), (), None, _freshness(version))
    nodes = tuple(_to_node(view.graph.node(number), distance) for distance, number in enumerate(path.numbers))
    edges = tuple(_to_edge(view, *pair) for pair in pairwise(path.numbers))
    return PathResult(nodes, edges, path.direction, _freshness(version))


def find_column_path(graph: ColumnGraphProtocol, start: Column, end: Column, *, include_frames: bool) -> ColumnPath:
    """Find a shortest path of DIRECT edges between two columns, in either direction."""
    graph, starts = locate_columns(graph, start)
    graph, targets = locate_columns(graph, end)
    view = DirectColumnView(graph, None if include_frames else graph.is_frame)
    path = _path_in_either_direction(view, [next(iter(numbers), None) for numbers in (starts, targets)])
    if path is None:
        return ColumnPath(start.id, end.id, (), is_found=False)
    ends = (start, end) if path.direction == "downstream" else (end, start)
    edges = tuple(_to_column_edge(graph, *pair, view.edge(*pair)) for pair in pairwise(path.numbers))
    return ColumnPath(ends[0].id, ends[1].id, edges, is_found=True)


class _Path(Struct, frozen=True):
    numbers: tuple[int, ...]
    direction: Direction


def _path_in_either_direction(view: PathView, ends: list[int | None]) -> _Path | None:
    start, end = ends
    if start is None or end is None:
        return None
    numbers = find_shortest_path(view, start, end)
    if numbers is not None:
        return _Path(numbers, "downstream")
    numbers = find_shortest_path(view, end, start)
    return None if numbers is None else _Path(numbers, "upstream")


def analyze_impact(
    graph: ColumnGraphProtocol,
    target: Column,
    limits: TraversalLimits,
    version: IndexVersion,
    *,
    include_frames: bool,
) -> ImpactResult:
    """Find the datasets that depend on a column, or on any column of a dataset, directly or indirectly."""
    graph, starts, is_complete = _locate_all_versions(graph, target)

    def find_affected(is_hidden: Callable[[int], bool] | None) -> tuple[tuple[ImpactedDataset, ...], bool]:
        traversal = traverse_columns(
            graph,
            starts,
            "downstream",
            depth=limits.depth,
            limit=limits.limit,
            indirect="follow",
            is_hidden=is_hidden,
        )
        return _impacted_datasets(graph, traversal), traversal.is_truncated

    impacted, is_truncated = find_affected(None if include_frames else graph.is_frame)
    in_memory: tuple[ImpactedDataset, ...] = ()
    if not impacted and not include_frames:
        in_memory, is_truncated = find_affected(lambda number: _is_unassigned_frame(graph.column(number)))
    return ImpactResult(
        start=target.id,
        affected=impacted,
        direct=sum(dataset.dependency_type == "DIRECT" for dataset in impacted),
        indirect=sum(dataset.dependency_type == "INDIRECT" for dataset in impacted),
        is_truncated=is_truncated or not is_complete,
        indexed_up_to=_freshness(version),
        in_memory=in_memory,
    )


def _locate_all_versions(graph: ColumnGraphProtocol, target: Column) -> tuple[ColumnGraphProtocol, Sequence[int], bool]:
    """Locate a column in all versions of a frame, since any of them may be read; return whether these are all."""
    graph, starts = locate_columns(graph, target)
    if target.namespace != NOTEBOOK_NAMESPACE:
        return graph, starts, True
    latest = next(iter(graph.columns_of(target.namespace, target.dataset)), None)
    variable, _, last = ("", "", "") if latest is None else graph.column(latest).dataset.rpartition("@")
    if variable != target.dataset or not last.isdecimal():
        # The target is a version.
        return graph, starts, True
    numbers = [*starts]
    # Versions of a variable are counted.
    first = max(1, int(last) - _MAX_FRAME_VERSIONS)
    for number in range(first, int(last)):
        graph, others = locate_columns(graph, structs.replace(target, dataset=f"{variable}@{number}"))
        numbers += others
    return graph, numbers, first == 1


def _is_unassigned_frame(column: Column) -> bool:
    """Check whether a column belongs to a frame that no variable held."""
    name = column.dataset.rpartition("@")[0] or column.dataset
    return is_intermediate_frame(column.namespace, name)


class FieldTraversal(Struct, frozen=True):
    """Visited columns by number, and the transformations of each edge by target and source; without datasets."""

    columns: dict[int, Column]
    sources: dict[int, dict[int, list[Transformation]]]


def traverse_fields(
    graph: ColumnGraphProtocol, targets: Iterable[Column], direction: Direction, limits: TraversalLimits
) -> FieldTraversal:
    """Traverse from columns, or from all columns of datasets, to columns, frames included."""
    starts: list[int] = []
    for target in targets:
        graph, numbers = locate_columns(graph, target)
        starts += numbers
    traversal = traverse_columns(graph, starts, direction, depth=limits.depth, limit=limits.limit)
    columns = {visited.number: graph.column(visited.number) for visited in traversal.columns}
    columns = {number: column for number, column in columns.items() if column.column is not None}
    sources: dict[int, dict[int, list[Transformation]]] = {number: {} for number in columns}
    for edge in traversal.edges:
        if edge.start in columns and edge.end in columns:
            transformations = sources[edge.end].setdefault(edge.start, [])
            if edge.transformation not in transformations:
                transformations.append(edge.transformation)
    return FieldTraversal(columns, sources)


def traverse_from_column(
    graph: ColumnGraphProtocol,
    target: Column,
    direction: Direction,
    limits: TraversalLimits,
    version: IndexVersion,
    *,
    include_frames: bool,
) -> LineageResult:
    """Traverse the lineage of a column."""
    graph, starts = locate_columns(graph, target)
    is_hidden = None if include_frames else graph.is_frame
    traversal = traverse_columns(graph, starts, direction, depth=limits.depth, limit=limits.limit, is_hidden=is_hidden)
    nodes = tuple(
        _to_column_node(graph.column(visited.number), visited.distance, visited.dependency_type)
        for visited in traversal.columns
    ) or (_to_column_node(target, 0, "DIRECT"),)
    edges = dict.fromkeys(_to_column_edge(graph, edge.start, edge.end, edge) for edge in traversal.edges)
    return LineageResult(nodes[0].id, direction, nodes, tuple(edges), traversal.is_truncated, _freshness(version))


def traverse_from_run(
    index: IndexReader, run: ResolvedName, direction: Direction, limits: TraversalLimits, view_options: ViewOptions
) -> LineageResult:
    """Traverse the lineage of a run."""
    if view_options.as_of is not None:
        raise MalformedError(
            "asOf cannot be combined with a run: its lineage is that of its own time.", hint="Omit asOf."
        )
    traversal = traverse_runs(
        index, run.name, direction, depth=limits.depth, limit=limits.limit, roll_up=view_options.roll_up
    )
    nodes = tuple(
        LineageNode(
            f"run:{visited.run.run_uuid}",
            "run",
            visited.run.job_namespace or "",
            visited.run.job_name or "",
            visited.distance,
            state=visited.run.state,
        )
        for visited in traversal.runs
    )
    edges = tuple(
        LineageEdge(
            f"run:{edge.writer}",
            f"run:{edge.reader}",
            "READ",
            dataset=Node("dataset", edge.dataset.namespace, edge.dataset.name).id,
            version=edge.version,
        )
        for edge in traversal.edges
    )
    return LineageResult(run.id, direction, nodes, edges, traversal.is_truncated, _freshness(index.version()))


def _impacted_datasets(graph: ColumnGraphProtocol, traversal: ColumnTraversal) -> tuple[ImpactedDataset, ...]:
    jobs: dict[int, set[str]] = {}
    for edge in traversal.edges:
        if edge.job is not None:
            jobs.setdefault(edge.end, set()).add(Node("job", *edge.job).id)
    groups: dict[DatasetName, list[tuple[LineageNode, set[str]]]] = {}
    for visited in traversal.columns:
        if visited.distance:
            column = graph.column(visited.number)
            node = _to_column_node(column, visited.distance, visited.dependency_type)
            dataset = DatasetName(column.namespace, column.dataset)
            groups.setdefault(dataset, []).append((node, jobs.get(visited.number, set())))
    return tuple(
        ImpactedDataset(
            dataset,
            min(node.distance for node, _ in group),
            "DIRECT" if any(node.dependency_type == "DIRECT" for node, _ in group) else "INDIRECT",
            tuple(node for node, _ in group),
            tuple(sorted(set().union(*(producers for _, producers in group)))),
        )
        for dataset, group in groups.items()
    )


def _to_node(node: Node, distance: int, hidden_upstream: int = 0, hidden_downstream: int = 0) -> LineageNode:
    return LineageNode(
        node.id,
        node.kind,
        node.namespace,
        node.name,
        distance,
        hidden_upstream=hidden_upstream,
        hidden_downstream=hidden_downstream,
    )


def _to_edge(view: JobGraphView, start: int, end: int) -> LineageEdge:
    return LineageEdge(view.graph.node(start).id, view.graph.node(end).id, view.edge_kind(start, end) or "MEMORY")


def _to_column_node(column: Column, distance: int, dependency_type: EdgeType) -> LineageNode:
    kind: NodeType = "dataset" if column.column is None else "column"
    return LineageNode(
        column.id,
        kind,
        column.namespace,
        column.dataset,
        distance,
        column=column.column,
        dependency_type=dependency_type,
    )


def _to_column_edge(
    graph: ColumnGraphProtocol, start: int, end: int, edge: TraversedEdge | AdjacentColumn
) -> LineageEdge:
    return LineageEdge(
        graph.column(start).id,
        graph.column(end).id,
        edge.transformation.type,
        subtype=edge.transformation.subtype,
        description=edge.transformation.description,
        is_masking=edge.transformation.is_masking,
        job=None if edge.job is None else Node("job", *edge.job).id,
    )


def _freshness(version: IndexVersion) -> IndexFreshness:
    return IndexFreshness(version.indexed_seq, version.indexed_at)
