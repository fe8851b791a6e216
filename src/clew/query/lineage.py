"""Lineage of a job, a dataset, a column or a run as nodes and edges; the way between two; what a column breaks."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from msgspec import Struct, field

from clew.errors import MalformedError
from clew.index.reader import IndexReader, Progress
from clew.query.graph.asked_columns import AskedColumns
from clew.query.graph.column_walk import Columns, ColumnWalk, column_walk
from clew.query.graph.columns import ColumnGraph
from clew.query.graph.lens import Lens, Sight
from clew.query.graph.nodes import Column, Node
from clew.query.graph.past import PastColumns
from clew.query.graph.walk import Direction, path, walk
from clew.query.holdings import Holdings
from clew.query.model import Dataset, EdgeType
from clew.query.names import UnknownNameError
from clew.query.node_ids import FIELD, JOB, RUN, find_field, find_node, kind_of
from clew.query.run_walk import run_walk
from clew.query.schemas import column_names

NodeType = Literal["dataset", "job", "column", "run"]
# MEMORY: by way of a frame in memory that is not shown.
EdgeKind = Literal["READ", "WRITE", "RENAME", "FEED", "DECLARED", "MEMORY", "DIRECT", "INDIRECT"]


class IndexedUpTo(Struct, frozen=True):
    """How far an answer goes: the last position of the log that it knows of, and when that came in."""

    position: int
    at: str


class LineageNode(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A node of an answer. `distance` is less than 0 upstream; `how` says of a column whether its values are meant.

    Hidden are neighbours that are not in the answer.
    """

    id: str
    kind: NodeType
    namespace: str
    name: str
    distance: int
    column: str | None = None
    how: EdgeType | None = None
    state: str | None = None
    hidden_upstream: int = 0
    hidden_downstream: int = 0


class LineageEdge(Struct, frozen=True, rename="camel", omit_defaults=True):
    """An edge along the flow of data; of columns also what the job did, of runs the dataset that was passed on."""

    start: str = field(name="from")
    end: str = field(name="to")
    kind: EdgeKind
    subtype: str | None = None
    description: str | None = None
    is_masking: bool | None = None
    job: str | None = None
    dataset: str | None = None
    version: str | None = None


class Lineage(Struct, frozen=True, rename="camel"):
    """What a walk came to, the nearest first. Cut: there were more nodes than were asked for."""

    start: str
    direction: Direction
    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    is_cut: bool
    indexed_up_to: IndexedUpTo


class Path(Struct, frozen=True, rename="camel"):
    """A shortest way between two nodes along the flow of data, whichever way that goes; no nodes if there is none."""

    nodes: tuple[LineageNode, ...]
    edges: tuple[LineageEdge, ...]
    direction: Direction | None
    indexed_up_to: IndexedUpTo


class Affected(Struct, frozen=True, rename="camel"):
    """A dataset that a change would reach: in which columns, how far away, and whether through values."""

    dataset: Dataset
    distance: int
    how: EdgeType
    columns: tuple[LineageNode, ...]
    jobs: tuple[str, ...]


class Impact(Struct, frozen=True, rename="camel"):
    """What a change of a column, or of a dataset, would reach, the nearest first."""

    start: str
    affected: tuple[Affected, ...]
    direct: int
    indirect: int
    is_cut: bool
    indexed_up_to: IndexedUpTo


class Bounds(Struct, frozen=True):
    """How far a walk goes."""

    depth: int = 20
    limit: int = 1000


def lineage(
    holdings: Holdings,
    index: IndexReader,
    node_id: str,
    column: str | None = None,
    direction: Direction = "both",
    bounds: Bounds | None = None,
    sight: Sight | None = None,
) -> Lineage:
    """The lineage of whatever an id names."""
    bounds, sight = bounds or Bounds(), sight or Sight()
    kind = kind_of(node_id)
    if kind == RUN:
        return _of_run(index, node_id, direction, bounds, sight)
    if kind == FIELD or column is not None:
        return _of_column(holdings, index, _field(index, node_id, column), direction, bounds, sight)
    node = find_node(index, node_id)
    return holdings.ask_lineage(
        index, lambda progress, graph: _of_node(Lens(graph, sight), node, direction, bounds, _up_to(progress))
    )


def _of_node(lens: Lens, node: Node, direction: Direction, bounds: Bounds, up_to: IndexedUpTo) -> Lineage:
    graph = lens.graph
    start = graph.find(node)
    if start is None:
        alone = LineageNode(node.id, node.kind, node.namespace, node.name, 0)
        return Lineage(node.id, direction, (alone,), (), is_cut=False, indexed_up_to=up_to)
    found = walk(lens, start, direction, depth=bounds.depth, limit=bounds.limit)
    nodes = tuple(
        _node(graph.node(one.number), one.distance, one.hidden_upstream, one.hidden_downstream) for one in found.found
    )
    edges = tuple(_edge(lens, *edge) for edge in found.edges)
    return Lineage(nodes[0].id, direction, nodes, edges, found.is_cut, up_to)


def way(holdings: Holdings, index: IndexReader, start_id: str, end_id: str, sight: Sight | None = None) -> Path:
    """A shortest way between two jobs or datasets."""
    start, end = find_node(index, start_id), find_node(index, end_id)
    return holdings.ask_lineage(index, lambda progress, graph: _way(Lens(graph, sight), start, end, _up_to(progress)))


def _way(lens: Lens, start: Node, end: Node, up_to: IndexedUpTo) -> Path:
    graph = lens.graph
    one, other = graph.find(start), graph.find(end)
    if one is None or other is None:
        return Path((), (), None, up_to)
    direction: Direction = "downstream"
    numbers = path(lens, one, other)
    if numbers is None:
        direction, numbers = "upstream", path(lens, other, one)
    if numbers is None:
        return Path((), (), None, up_to)
    nodes = tuple(_node(graph.node(number), distance) for distance, number in enumerate(numbers))
    edges = tuple(_edge(lens, *pair) for pair in pairwise(numbers))
    return Path(nodes, edges, direction, up_to)


def impact(
    holdings: Holdings,
    index: IndexReader,
    node_id: str,
    column: str | None = None,
    bounds: Bounds | None = None,
    *,
    has_frames: bool = False,
) -> Impact:
    """What takes values from a column, or lets it decide; of a dataset, from any of its columns."""
    bounds = bounds or Bounds()
    wanted = _field(index, node_id, column)
    return holdings.ask_columns(
        index,
        lambda progress, graph: _impact(graph, wanted, bounds, _up_to(progress), has_frames=has_frames),
    )


def _impact(
    graph: ColumnGraph | AskedColumns, wanted: Column, bounds: Bounds, up_to: IndexedUpTo, *, has_frames: bool
) -> Impact:
    found = column_walk(
        graph,
        _numbers(graph, wanted),
        "downstream",
        depth=bounds.depth,
        limit=bounds.limit,
        influence="followed",
        has_frames=has_frames,
    )
    affected = _affected(graph, found)
    return Impact(
        start=wanted.id,
        affected=affected,
        direct=sum(one.how == "DIRECT" for one in affected),
        indirect=sum(one.how == "INDIRECT" for one in affected),
        is_cut=found.is_cut,
        indexed_up_to=up_to,
    )


def _of_column(
    holdings: Holdings, index: IndexReader, wanted: Column, direction: Direction, bounds: Bounds, sight: Sight
) -> Lineage:
    def walked(progress: Progress, graph: ColumnGraph | AskedColumns | PastColumns) -> Lineage:
        return _along_columns(graph, wanted, direction, bounds, sight, _up_to(progress))

    if sight.as_of is not None:
        return walked(index.progress(), PastColumns(index, sight.as_of))
    return holdings.ask_columns(index, walked)


def _along_columns(
    graph: ColumnGraph | AskedColumns | PastColumns,
    wanted: Column,
    direction: Direction,
    bounds: Bounds,
    sight: Sight,
    up_to: IndexedUpTo,
) -> Lineage:
    number = graph.find_most(wanted)
    found = column_walk(
        graph,
        [] if number is None else [number],
        direction,
        depth=bounds.depth,
        limit=bounds.limit,
        has_frames=sight.has_frames,
    )
    nodes = tuple(_column_node(graph.column(one.number), one.distance, one.how) for one in found.found) or (
        _column_node(wanted, 0, "DIRECT"),
    )
    return Lineage(nodes[0].id, direction, nodes, _column_edges(graph, found), found.is_cut, up_to)


def _of_run(index: IndexReader, node_id: str, direction: Direction, bounds: Bounds, sight: Sight) -> Lineage:
    if sight.as_of is not None:
        raise MalformedError("The lineage of a run is that of its own time.", hint="Leave out asOf.")
    run_uuid = node_id.partition(":")[2]
    found = run_walk(index, run_uuid, direction, depth=bounds.depth, limit=bounds.limit, roll_up=sight.roll_up)
    nodes = tuple(
        LineageNode(
            f"run:{one.run_uuid}",
            "run",
            one.row["job_namespace"] or "",
            one.row["job_name"] or "",
            one.distance,
            state=one.row["state"],
        )
        for one in found.found
    )
    edges = tuple(
        LineageEdge(
            f"run:{edge.writer}",
            f"run:{edge.reader}",
            "READ",
            dataset=Node("dataset", edge.dataset.namespace, edge.dataset.name).id,
            version=edge.version,
        )
        for edge in found.edges
    )
    return Lineage(f"run:{run_uuid}", direction, nodes, edges, found.is_cut, _up_to(index.progress()))


def _field(index: IndexReader, node_id: str, column: str | None) -> Column:
    if kind_of(node_id) in (JOB, RUN):
        raise MalformedError(f"A {kind_of(node_id)} has no columns.", hint="Name a dataset, or one of its columns.")
    if column is None:
        return find_field(index, node_id)
    node = find_node(index, node_id)
    known = column_names(index, Dataset(node.namespace, node.name))
    if column not in known:
        raise UnknownNameError.of(f"column of {node.name}", column, known)
    return Column(node.namespace, node.name, column)


def _numbers(graph: ColumnGraph | AskedColumns, wanted: Column) -> list[int]:
    if wanted.column is None:
        return list(graph.columns_of(wanted.namespace, wanted.dataset))
    number = graph.find_most(wanted)
    return [] if number is None else [number]


def _affected(graph: Columns, found: ColumnWalk) -> tuple[Affected, ...]:
    jobs: dict[int, set[str]] = {}
    for edge in found.edges:
        if edge.job is not None:
            jobs.setdefault(edge.end, set()).add(Node("job", *edge.job).id)
    groups: dict[Dataset, list[tuple[LineageNode, set[str]]]] = {}
    for one in found.found:
        if one.distance:
            column = graph.column(one.number)
            node = _column_node(column, one.distance, one.how)
            dataset = Dataset(column.namespace, column.dataset)
            groups.setdefault(dataset, []).append((node, jobs.get(one.number, set())))
    return tuple(
        Affected(
            dataset,
            min(node.distance for node, _ in group),
            "DIRECT" if any(node.how == "DIRECT" for node, _ in group) else "INDIRECT",
            tuple(node for node, _ in group),
            tuple(sorted(set().union(*(made_by for _, made_by in group)))),
        )
        for dataset, group in groups.items()
    )


def _node(node: Node, distance: int, hidden_upstream: int = 0, hidden_downstream: int = 0) -> LineageNode:
    return LineageNode(
        node.id,
        node.kind,
        node.namespace,
        node.name,
        distance,
        hidden_upstream=hidden_upstream,
        hidden_downstream=hidden_downstream,
    )


def _edge(lens: Lens, start: int, end: int) -> LineageEdge:
    return LineageEdge(lens.graph.node(start).id, lens.graph.node(end).id, lens.how(start, end) or "MEMORY")


def _column_node(column: Column, distance: int, how: EdgeType) -> LineageNode:
    kind: NodeType = "dataset" if column.column is None else "column"
    return LineageNode(column.id, kind, column.namespace, column.dataset, distance, column=column.column, how=how)


def _column_edges(graph: Columns, found: ColumnWalk) -> tuple[LineageEdge, ...]:
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
        for edge in found.edges
    )


def _up_to(progress: Progress) -> IndexedUpTo:
    return IndexedUpTo(progress.seq, progress.at)
