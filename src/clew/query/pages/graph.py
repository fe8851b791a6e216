"""Expandable lineage graph of the web UI."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

from clew.errors import UsageError
from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.queries.reader import IndexReader
from clew.query.graph.column_graph import AdjacentColumn, LazyColumnGraph
from clew.query.graph.job_graph import LazyJobGraph
from clew.query.graph.nodes import Node, NodeKind, node_key
from clew.query.graph.traversal import (
    UNLIMITED,
    TraversedEdge,
    VisitedNode,
    connect_nodes,
    find_shortest_path,
    traverse,
    traverse_columns,
)
from clew.query.graph.view import JobGraphView, ViewOptions
from clew.query.layout import Box, Size, Spacing, bounding_box, compute_layered_layout, extend_layout, group_into_bands
from clew.query.model import DatasetName, Field, State, from_epoch_micros
from clew.query.names import UnknownNameError, column_names, last_segment
from clew.query.notebooks.session import lineage_flag
from clew.query.pages.lists import EntityName, display_job
from clew.query.pages.run_page_model import CardMetrics, PageLink, Port

Side = Literal["up", "down"]
# Characters that encodeURIComponent leaves unescaped, so that the web UI builds the same ids.
_SAFE = "!*'()"


def format_node_id(node: Node) -> str:
    """Return the URL-encoded id: `kind/namespace/name`."""
    return f"{node.kind}/{quote(node.namespace, safe=_SAFE)}/{quote(node.name, safe=_SAFE)}"


def parse_node_id(text: str) -> Node:
    """Parse the id of a node."""
    parts = [unquote(part) for part in text.split("/")]
    match parts:
        case ["dataset" | "job" as kind, namespace, name] if name:
            return Node(kind, namespace, name)
    raise UsageError(
        f"Invalid node id {text!r}.",
        hint="Use dataset/NAMESPACE/NAME or job/NAMESPACE/NAME, each part URL-encoded.",
    )


def _displayed_job(job: Node) -> Node:
    return Node("job", *display_job(EntityName(job.namespace, job.name)).key)


class PageJobGraph(LazyJobGraph):
    """Job graph of the page: operations are children of their notebook, neighbours are last updated first."""

    def __init__(self, index: IndexReader) -> None:
        super().__init__(index)
        self._page_index = index

    def number(self, node: Node) -> int:
        """Return the number of a node, of a dataset by any of its names, whether it has lineage or not."""
        name = node.namespace, node.name
        if node.kind == "dataset":
            name = self._page_index.find_canonical_name(name) or name
        return self.number_of(node_key(node.kind, *name))

    def parent(self, number: int) -> int:
        """Return the notebook of an operation, or the job itself."""
        node = self.node(number)
        return number if node.kind == "dataset" else self.number(_displayed_job(node))

    def children(self, number: int) -> Sequence[int]:
        """Return the operations of a notebook."""
        node = self.node(number)
        if node.kind == "dataset" or node.namespace != NOTEBOOK_NAMESPACE or _displayed_job(node) != node:
            return ()
        names = self._page_index.job_and_operations((node.namespace, node.name))[1:]
        return [self.number(Node("job", *name)) for name in names]

    def sort(self, numbers: Iterable[int]) -> Iterable[int]:
        """Keep the order of the index: last updated first."""
        return numbers


class _Page:
    """Graph, view and column names of a page."""

    def __init__(self, index: IndexReader, as_of: datetime | None) -> None:
        self.index = index
        self.as_of = None if as_of is None else round(as_of.timestamp() * 1_000_000)
        self.graph = PageJobGraph(index)
        self.view = JobGraphView(self.graph, ViewOptions(as_of=self.as_of, roll_up="parent"))
        # By node id.
        self.numbers: dict[str, int] = {}
        self._columns: dict[int, list[str]] = {}

    def number(self, node: Node) -> int:
        return self.view.representative(self.graph.number(node))

    def id(self, number: int) -> str:
        node_id = format_node_id(self.graph.node(number))
        self.numbers[node_id] = number
        return node_id

    def columns(self, number: int) -> list[str]:
        if number not in self._columns:
            node = self.graph.node(number)
            is_dataset = node.kind == "dataset"
            self._columns[number] = (
                column_names(self.index, DatasetName(node.namespace, node.name)) if is_dataset else []
            )
        return self._columns[number]

    def size(self, number: int) -> Size:
        if self.graph.is_job(number):
            return JOB_NODE
        return Size(width=NODE_WIDTH, height=CARD.height(len(self.columns(number))))

    def layout(self, numbers: Iterable[int]) -> _Boxes:
        numbers = dict.fromkeys(numbers, 0)
        sizes = {self.id(number): self.size(number) for number in numbers}
        edges = connect_nodes(self.view, numbers).edges
        return compute_layered_layout(sizes, [(self.id(start), self.id(end)) for start, end in edges], SPACING)


NODE_WIDTH = 208
CARD = CardMetrics(head=46, row=22, max_rows=6)
JOB_NODE = Size(width=196, height=48)
# Leaves room below a node for the chip with the number of hidden neighbours.
SPACING = Spacing(layer=64, node=34)
GROUP_PAD, GROUP_HEAD = 16.0, 26.0

# Neighbours shown on each side of a node before it is expanded.
INITIAL_NEIGHBOURS = 8
MAX_EXPANDED = 100
MAX_NODES = 1000
MAX_DEPTH = 20
# Column names per node; the dataset page lists all.
MAX_COLUMNS = 200
_MAX_EDGES = 20_000
# Code lines per edge through a notebook: the last ones before the write.
_MAX_CODE_LINES = 3


class Expansion(Struct, frozen=True):
    """A node that the user expanded, and the side."""

    side: Side
    node: Node


class GraphRequest(Struct, frozen=True):
    """The part of the graph to show."""

    centre: Node
    expansions: tuple[Expansion, ...] = ()
    depth: int = 1
    as_of: datetime | None = None
    is_grouped: bool = False


class LineageGraphNode(Struct, frozen=True, rename="camel"):
    """A node with its position and at most `MAX_COLUMNS` columns."""

    id: str
    kind: NodeKind
    namespace: str
    name: str
    label: str
    box: Box
    columns: tuple[Field, ...]
    column_total: int
    hidden_upstream: int
    hidden_downstream: int
    # For a job: state, start and notebook session of its latest run.
    state: State | None = None
    at: datetime | None = None
    session_id: str | None = None


class LineageGraphEdge(Struct, frozen=True, rename="camel"):
    """A column edge; ports and job refer to nodes by list position."""

    source: Port
    target: Port
    type: str
    subtype: str | None
    flag: str | None
    job: int | None
    code: tuple[str, ...]


class NamespaceGroup(Struct, frozen=True):
    """Bounding box of the nodes of a namespace."""

    name: str
    box: Box


class TimeRange(Struct, frozen=True):
    """Times of the first and last event of any run."""

    first: datetime | None
    last: datetime | None


class LineageGraphView(Struct, frozen=True, rename="camel"):
    """A lineage graph with its layout."""

    centre: str
    nodes: tuple[LineageGraphNode, ...]
    links: tuple[PageLink, ...]
    edges: tuple[LineageGraphEdge, ...]
    groups: tuple[NamespaceGroup, ...]
    time_range: TimeRange
    is_truncated: bool
    card: CardMetrics


def build_lineage_graph(index: IndexReader, request: GraphRequest) -> LineageGraphView:
    """Build the graph around a node."""
    page = _Page(index, request.as_of)
    centre = page.number(request.centre)
    _require(index, request.centre, page.graph.node(centre))
    # A dataset is one hop from another over a job.
    steps = 2 * request.depth if request.centre.kind == "dataset" else 2 * request.depth - 1
    nodes = traverse(
        page.view,
        centre,
        depth=min(steps, 2 * MAX_DEPTH),
        limit=MAX_NODES,
        max_neighbours=INITIAL_NEIGHBOURS if request.depth == 1 else MAX_NODES,
    ).nodes
    boxes = page.layout(node.number for node in nodes)
    for expansion in request.expansions:
        boxes = _expand(page, boxes, expansion)
    return _build_view(page, centre, boxes, is_grouped=request.is_grouped)


def build_path_graph(index: IndexReader, start: Node, end: Node, as_of: datetime | None = None) -> LineageGraphView:
    """Build the graph of a shortest path between two nodes, in either direction."""
    page = _Page(index, as_of)
    ends = page.number(start), page.number(end)
    path = find_shortest_path(page.view, *ends) or find_shortest_path(page.view, *ends[::-1])
    if path is None:
        raise UnknownNameError(f"No path between {start.name} and {end.name}.")
    return _build_view(page, ends[0], page.layout(path), is_grouped=False)


_Boxes = dict[str, Box]


def _require(index: IndexReader, requested: Node, node: Node) -> None:
    exists = index.has_dataset if requested.kind == "dataset" else index.has_job
    if not exists(node.namespace, node.name):
        raise UnknownNameError.of_entity(index, requested.kind, requested.name)


def _expand(page: _Page, boxes: _Boxes, expansion: Expansion) -> _Boxes:
    """Add the neighbours of a node to the layout; for a dataset, also the datasets behind the jobs."""
    number, is_forward = page.number(expansion.node), expansion.side == "down"
    if page.id(number) not in boxes:
        return boxes
    neighbours = page.view.neighbours(number, is_forward=is_forward)
    adjacent = [other for other in neighbours if page.id(other) not in boxes][:MAX_EXPANDED]
    behind_jobs: list[int] = []
    if expansion.node.kind == "dataset":
        jobs = [other for other in neighbours[:MAX_EXPANDED] if page.graph.is_job(other)]
        datasets = [
            end for job in jobs for end in page.view.neighbours(job, is_forward=is_forward)[:INITIAL_NEIGHBOURS]
        ]
        behind_jobs = [
            dataset for dataset in dict.fromkeys(datasets) if page.id(dataset) not in boxes and dataset not in adjacent
        ]
    remaining = MAX_NODES - len(boxes)
    steps = [
        {page.id(added): page.size(added) for added in adjacent[:remaining]},
        {page.id(added): page.size(added) for added in behind_jobs[: max(0, remaining - len(adjacent))]},
    ]
    return extend_layout(boxes, page.id(number), steps, 1 if is_forward else -1, SPACING)


def _build_view(page: _Page, centre: int, boxes: _Boxes, *, is_grouped: bool) -> LineageGraphView:
    numbers = {page.numbers[node_id]: node_id for node_id in boxes}
    group_of = {node_id: page.graph.node(number).namespace for number, node_id in numbers.items()}
    if is_grouped:
        boxes = group_into_bands(boxes, group_of, SPACING.node, GROUP_PAD + GROUP_HEAD)
    traversal = connect_nodes(page.view, dict.fromkeys(numbers, 0))
    time_range = page.index.time_range()
    return LineageGraphView(
        centre=page.id(centre),
        nodes=tuple(_node(page, node, boxes[numbers[node.number]]) for node in traversal.nodes),
        links=tuple(PageLink(numbers[start], numbers[end], ()) for start, end in traversal.edges),
        edges=_edges(page, list(numbers)),
        groups=_groups(boxes, group_of) if is_grouped else (),
        time_range=TimeRange(None, None)
        if time_range is None
        else TimeRange(from_epoch_micros(time_range["first"]), from_epoch_micros(time_range["last"])),
        is_truncated=len(boxes) >= MAX_NODES,
        card=CARD,
    )


def _groups(boxes: _Boxes, group_of: Mapping[str, str]) -> tuple[NamespaceGroup, ...]:
    return tuple(
        NamespaceGroup(
            group, bounding_box((boxes[name] for name in boxes if group_of[name] == group), GROUP_PAD, GROUP_HEAD)
        )
        for group in dict.fromkeys(group_of.values())
    )


def _edges(page: _Page, numbers: Sequence[int]) -> tuple[LineageGraphEdge, ...]:
    """Return the column edges between the datasets of the page, over in-memory frames."""
    graph = LazyColumnGraph(page.index, page.as_of)
    positions: dict[tuple[str, tuple[str, str]], int] = {
        (node.kind, (node.namespace, node.name)): i for i, node in enumerate(map(page.graph.node, numbers))
    }
    starts = [number for kind, name in positions if kind == "dataset" for number in graph.columns_of(*name)]
    edges = traverse_columns(graph, starts, depth=1, limit=UNLIMITED, is_hidden=graph.is_frame).edges
    code_of = page.index.operation_code({step.origin for edge in edges for step in _steps(edge) if _is_operation(step)})
    column_edges: dict[LineageGraphEdge, None] = {}
    for edge in edges:
        source, target = graph.column(edge.start), graph.column(edge.end)
        ends = [positions.get(("dataset", (column.namespace, column.dataset))) for column in (source, target)]
        if ends[0] is None or ends[1] is None:
            continue
        job = None if edge.job is None else positions.get(("job", display_job(EntityName(*edge.job)).key))
        is_inferred = any(lineage_flag(step.transformation.description) for step in _steps(edge))
        column_edges[
            LineageGraphEdge(
                source=Port(ends[0], source.column),
                target=Port(ends[1], target.column),
                type=edge.transformation.type,
                subtype=edge.transformation.subtype,
                flag="inferred" if is_inferred else None,
                job=job,
                code=_code(edge, code_of),
            )
        ] = None
    # An edge into a dataset as a whole is not repeated for each of its columns.
    return tuple(
        edge
        for edge in column_edges
        if edge.target.column is None or replace(edge, target=Port(edge.target.state, None)) not in column_edges
    )[:_MAX_EDGES]


def _steps(edge: TraversedEdge) -> Sequence[TraversedEdge | AdjacentColumn]:
    return edge.via or (edge,)


def _code(edge: TraversedEdge, code_of: Mapping[str, str]) -> tuple[str, ...]:
    """Return the code behind an edge: the last lines of a notebook before the write, or the description."""
    if _is_operation(edge):
        transforming = (step for step in _steps(edge) if step.transformation.subtype not in {None, "IDENTITY"})
        lines = dict.fromkeys(code_of[step.origin] for step in transforming if step.origin in code_of)
        return tuple(lines)[:_MAX_CODE_LINES]
    description = edge.transformation.description
    return (description,) if description and lineage_flag(description) is None else ()


def _is_operation(edge: TraversedEdge | AdjacentColumn) -> bool:
    return edge.job is not None and edge.job[0] == NOTEBOOK_NAMESPACE and edge.origin is not None


def _node(page: _Page, visited: VisitedNode, box: Box) -> LineageGraphNode:
    node = page.graph.node(visited.number)
    names = page.columns(visited.number)
    run = page.index.runs_of_job((node.namespace, node.name), 1) if node.kind == "job" else []
    is_notebook = node.kind == "job" and node.namespace == NOTEBOOK_NAMESPACE
    return LineageGraphNode(
        id=format_node_id(node),
        kind=node.kind,
        namespace=node.namespace,
        name=node.name,
        label=last_segment(node.name) or node.name,
        box=box,
        columns=tuple(Field(name, None) for name in names[:MAX_COLUMNS]),
        column_total=len(names),
        hidden_upstream=visited.hidden_upstream,
        hidden_downstream=visited.hidden_downstream,
        state=run[0].state if run else None,
        at=from_epoch_micros(run[0].start_time) if run else None,
        session_id=run[0].session_id if run and is_notebook else None,
    )
