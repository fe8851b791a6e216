"""Lineage, paths and impact of nodes and columns."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

from msgspec import Struct, field

from clew.errors import MalformedError
from clew.index.queries.reader import IndexReader, IndexVersion
from clew.query.context import QueryResources
from clew.query.graph.column_graph import AsOfColumnGraph, ColumnGraph, LazyColumnGraph
from clew.query.graph.nodes import Column, Node
from clew.query.graph.traversal import (
    ColumnGraphProtocol,
    ColumnTraversal,
    Direction,
    find_shortest_path,
    traverse,
    traverse_columns,
    traverse_runs,
)
from clew.query.graph.view import JobGraphView, ViewOptions
from clew.query.model import DatasetName, EdgeType
from clew.query.names import (
    FIELD,
    JOB,
    RUN,
    UnknownNameError,
    column_names,
    node_kind,
    resolve_field_id,
    resolve_node_id,
)

NodeType = Literal["dataset", "job", "column", "run"]
# MEMORY: through an in-memory frame that is not part of the result.
LineageEdgeKind = Literal["READ", "WRITE", "RENAME", "FEED", "DECLARED", "MEMORY", "DIRECT", "INDIRECT"]


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


class ImpactedDataset(Struct, frozen=True, rename="camel"):
    """A dataset affected by a change: its affected columns, distance, and DIRECT or INDIRECT dependency."""

    dataset: DatasetName
    distance: int
    dependency_type: EdgeType
    columns: tuple[LineageNode, ...]
    jobs: tuple[str, ...]


class ImpactResult(Struct, frozen=True, rename="camel"):
    """Datasets affected by a change of a column or dataset, nearest first."""

    start: str
    affected: tuple[ImpactedDataset, ...]
    direct: int
    indirect: int
    is_truncated: bool
    indexed_up_to: IndexFreshness


class TraversalLimits(Struct, frozen=True):
    """Maximum depth and number of nodes of a traversal."""

    depth: int = 20
    limit: int = 1000


def traverse_lineage(
    resources: QueryResources,
    index: IndexReader,
    node_id: str,
    column: str | None = None,
    direction: Direction = "both",
    limits: TraversalLimits | None = None,
    view_options: ViewOptions | None = None,
) -> LineageResult:
    """Traverse the lineage of the node with an id."""
    limits, view_options = limits or TraversalLimits(), view_options or ViewOptions()
    kind = node_kind(node_id)
    if kind == RUN:
        return _run_lineage(index, node_id, direction, limits, view_options)
    if kind == FIELD or column is not None:
        return _column_lineage(
            resources, index, _resolve_target(index, node_id, column), direction, limits, view_options
        )
    node = resolve_node_id(index, node_id)
    return resources.with_job_graph(
        index,
        lambda version, graph: _node_lineage(
            JobGraphView(graph, view_options), node, direction, limits, _freshness(version)
        ),
    )


def _node_lineage(
    lens: JobGraphView, node: Node, direction: Direction, limits: TraversalLimits, freshness: IndexFreshness
) -> LineageResult:
    graph = lens.graph
    start = graph.find(node)
    if start is None:
        node_only = LineageNode(node.id, node.kind, node.namespace, node.name, 0)
        return LineageResult(node.id, direction, (node_only,), (), is_truncated=False, indexed_up_to=freshness)
    traversal = traverse(lens, start, direction, depth=limits.depth, limit=limits.limit)
    nodes = tuple(
        _to_node(graph.node(visited.number), visited.distance, visited.hidden_upstream, visited.hidden_downstream)
        for visited in traversal.nodes
    )
    edges = tuple(_to_edge(lens, *edge) for edge in traversal.edges)
    return LineageResult(nodes[0].id, direction, nodes, edges, traversal.is_truncated, freshness)


def find_path(
    resources: QueryResources, index: IndexReader, start_id: str, end_id: str, view_options: ViewOptions | None = None
) -> PathResult:
    """Find a shortest path between two jobs or datasets."""
    start, end = resolve_node_id(index, start_id), resolve_node_id(index, end_id)
    return resources.with_job_graph(
        index,
        lambda version, graph: _find_path(JobGraphView(graph, view_options), start, end, _freshness(version)),
    )


def _find_path(lens: JobGraphView, start: Node, end: Node, freshness: IndexFreshness) -> PathResult:
    graph = lens.graph
    start_number, end_number = graph.find(start), graph.find(end)
    if start_number is None or end_number is None:
        return PathResult((), (), None, freshness)
    direction: Direction = "downstream"
    numbers = find_shortest_path(lens, start_number, end_number)
    if numbers is None:
        direction, numbers = "upstream", find_shortest_path(lens, end_number, start_number)
    if numbers is None:
        return PathResult((), (), None, freshness)
    nodes = tuple(_to_node(graph.node(number), distance) for distance, number in enumerate(numbers))
    edges = tuple(_to_edge(lens, *pair) for pair in pairwise(numbers))
    return PathResult(nodes, edges, direction, freshness)


def analyze_impact(
    resources: QueryResources,
    index: IndexReader,
    node_id: str,
    column: str | None = None,
    limits: TraversalLimits | None = None,
    *,
    include_frames: bool = False,
) -> ImpactResult:
    """Find the datasets that depend on a column, or on any column of a dataset, directly or indirectly."""
    limits = limits or TraversalLimits()
    target = _resolve_target(index, node_id, column)
    return resources.with_column_graph(
        index,
        lambda version, graph: _analyze_impact(
            graph, target, limits, _freshness(version), include_frames=include_frames
        ),
    )


def _analyze_impact(
    graph: ColumnGraph | LazyColumnGraph,
    target: Column,
    limits: TraversalLimits,
    freshness: IndexFreshness,
    *,
    include_frames: bool,
) -> ImpactResult:
    traversal = traverse_columns(
        graph,
        _start_numbers(graph, target),
        "downstream",
        depth=limits.depth,
        limit=limits.limit,
        indirect="follow",
        include_frames=include_frames,
    )
    impacted = _impacted_datasets(graph, traversal)
    return ImpactResult(
        start=target.id,
        affected=impacted,
        direct=sum(dataset.dependency_type == "DIRECT" for dataset in impacted),
        indirect=sum(dataset.dependency_type == "INDIRECT" for dataset in impacted),
        is_truncated=traversal.is_truncated,
        indexed_up_to=freshness,
    )


def _column_lineage(
    resources: QueryResources,
    index: IndexReader,
    target: Column,
    direction: Direction,
    limits: TraversalLimits,
    view_options: ViewOptions,
) -> LineageResult:
    def run_query(version: IndexVersion, graph: ColumnGraph | LazyColumnGraph | AsOfColumnGraph) -> LineageResult:
        return _traverse_columns(graph, target, direction, limits, view_options, _freshness(version))

    if view_options.as_of is not None:
        return run_query(index.version(), AsOfColumnGraph(index, view_options.as_of))
    return resources.with_column_graph(index, run_query)


def _traverse_columns(
    graph: ColumnGraph | LazyColumnGraph | AsOfColumnGraph,
    target: Column,
    direction: Direction,
    limits: TraversalLimits,
    view_options: ViewOptions,
    freshness: IndexFreshness,
) -> LineageResult:
    number = graph.find_column_or_dataset(target)
    traversal = traverse_columns(
        graph,
        [] if number is None else [number],
        direction,
        depth=limits.depth,
        limit=limits.limit,
        include_frames=view_options.include_frames,
    )
    nodes = tuple(
        _to_column_node(graph.column(visited.number), visited.distance, visited.dependency_type)
        for visited in traversal.columns
    ) or (_to_column_node(target, 0, "DIRECT"),)
    return LineageResult(
        nodes[0].id, direction, nodes, _to_column_edges(graph, traversal), traversal.is_truncated, freshness
    )


def _run_lineage(
    index: IndexReader, node_id: str, direction: Direction, limits: TraversalLimits, view_options: ViewOptions
) -> LineageResult:
    if view_options.as_of is not None:
        raise MalformedError(
            "asOf cannot be combined with a run: its lineage is that of its own time.", hint="Omit asOf."
        )
    run_uuid = node_id.partition(":")[2]
    traversal = traverse_runs(
        index, run_uuid, direction, depth=limits.depth, limit=limits.limit, roll_up=view_options.roll_up
    )
    nodes = tuple(
        LineageNode(
            f"run:{run.run_uuid}",
            "run",
            run.row["job_namespace"] or "",
            run.row["job_name"] or "",
            run.distance,
            state=run.row["state"],
        )
        for run in traversal.runs
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
    return LineageResult(
        f"run:{run_uuid}", direction, nodes, edges, traversal.is_truncated, _freshness(index.version())
    )


def _resolve_target(index: IndexReader, node_id: str, column: str | None) -> Column:
    if node_kind(node_id) in (JOB, RUN):
        raise MalformedError(f"A {node_kind(node_id)} has no columns.", hint="Pass a dataset or one of its columns.")
    if column is None:
        return resolve_field_id(index, node_id)
    node = resolve_node_id(index, node_id)
    existing = column_names(index, DatasetName(node.namespace, node.name))
    if column not in existing:
        raise UnknownNameError.of(f"column of {node.name}", column, existing)
    return Column(node.namespace, node.name, column)


def _start_numbers(graph: ColumnGraph | LazyColumnGraph, target: Column) -> list[int]:
    if target.column is None:
        return list(graph.columns_of(target.namespace, target.dataset))
    number = graph.find_column_or_dataset(target)
    return [] if number is None else [number]


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


def _to_edge(lens: JobGraphView, start: int, end: int) -> LineageEdge:
    return LineageEdge(lens.graph.node(start).id, lens.graph.node(end).id, lens.edge_kind(start, end) or "MEMORY")


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


def _to_column_edges(graph: ColumnGraphProtocol, traversal: ColumnTraversal) -> tuple[LineageEdge, ...]:
    return tuple(
        LineageEdge(
            graph.column(edge.start).id,
            graph.column(edge.end).id,
            edge.transformation.type,
            subtype=edge.transformation.subtype,
            description=edge.transformation.description,
            is_masking=edge.transformation.is_masking,
            job=None if edge.job is None else Node("job", *edge.job).id,
        )
        for edge in traversal.edges
    )


def _freshness(version: IndexVersion) -> IndexFreshness:
    return IndexFreshness(version.indexed_seq, version.indexed_at)


def shortest_column_path(result: LineageResult, target: str) -> tuple[LineageEdge, ...] | None:
    """Return the edges of a shortest DIRECT path from the start of a downstream result to a column, or None."""
    predecessors: dict[str, LineageEdge] = {}
    outgoing: dict[str, list[LineageEdge]] = {}
    for edge in result.edges:
        if edge.kind == "INDIRECT":
            continue
        outgoing.setdefault(edge.start, []).append(edge)
    visited, frontier = {result.start}, [result.start]
    while frontier and target not in visited:
        next_frontier: list[str] = []
        for edge in _outgoing_edges(frontier, outgoing):
            if edge.end not in visited:
                visited.add(edge.end)
                predecessors[edge.end] = edge
                next_frontier.append(edge.end)
        frontier = next_frontier
    if target not in visited:
        return None
    path: list[LineageEdge] = []
    while target != result.start:
        path.append(predecessors[target])
        target = predecessors[target].start
    return tuple(reversed(path))


def _outgoing_edges(nodes: Iterable[str], outgoing: dict[str, list[LineageEdge]]) -> Iterable[LineageEdge]:
    return (edge for node in nodes for edge in outgoing.get(node, ()))
