"""Expandable lineage graph of the web UI."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal
from urllib.parse import quote, unquote

from msgspec import Struct

from clew.errors import UsageError
from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.backends.base import Row
from clew.index.queries.lists import PageQueries
from clew.query.context import QueryResources
from clew.query.graph import nodes as graph_nodes
from clew.query.graph.traversal import find_shortest_path
from clew.query.graph.view import JobGraphView, ViewOptions
from clew.query.layout import Box, Size, Spacing, bounding_box, compute_layered_layout, extend_layout, group_into_bands
from clew.query.model import DatasetName, EdgeType, Field, NotebookRun, State, from_epoch_micros
from clew.query.names import UnknownNameError, column_names
from clew.query.notebooks.session import RunStates, find_notebook_run, track_states
from clew.query.pages.lists import EntityName, NodeKind, display_job
from clew.query.pages.run_page_model import CardMetrics, PageEdge, PageLink, Port

Side = Literal["up", "down"]
# Characters that encodeURIComponent leaves unescaped, so that the web UI builds the same ids.
_SAFE = "!*'()"


class GraphNodeRef(Struct, frozen=True, order=True):
    """A dataset or a job in the graph."""

    kind: NodeKind
    name: EntityName

    @property
    def id(self) -> str:
        """URL-encoded id: `kind/namespace/name`."""
        return f"{self.kind}/{quote(self.name.namespace, safe=_SAFE)}/{quote(self.name.name, safe=_SAFE)}"

    @classmethod
    def parse(cls, text: str) -> GraphNodeRef:
        """Parse a node id."""
        parts = [unquote(part) for part in text.split("/")]
        match parts:
            case ["dataset" | "job" as kind, namespace, name] if name:
                return cls(kind, EntityName(namespace, name))
        raise UsageError(
            f"Invalid node id {text!r}.",
            hint="Use dataset/NAMESPACE/NAME or job/NAMESPACE/NAME, each part URL-encoded.",
        )


class NeighbourCache:
    """Neighbours of nodes, loaded on demand and cached."""

    def __init__(self, index: PageQueries, as_of: datetime | None = None) -> None:
        self._index = index
        self._as_of = None if as_of is None else round(as_of.timestamp() * 1_000_000)
        self._cached: dict[tuple[GraphNodeRef, Side], tuple[GraphNodeRef, ...]] = {}

    def get(self, node: GraphNodeRef, side: Side) -> tuple[GraphNodeRef, ...]:
        """Return the nodes directly upstream or downstream of a node, last updated first."""
        key = (node, side)
        if key not in self._cached:
            nodes = self._jobs(node, side) if node.kind == "dataset" else self._datasets(node, side)
            self._cached[key] = tuple(dict.fromkeys(other for other in nodes if other != node))
        return self._cached[key]

    def canonical(self, node: GraphNodeRef) -> GraphNodeRef:
        """Return the canonical node: the target of a symlink, or the notebook of an operation."""
        if node.kind == "dataset":
            return GraphNodeRef("dataset", EntityName(*self._index.canonical_name(node.name.key)))
        return GraphNodeRef("job", display_job(node.name))

    def aliases(self, dataset: GraphNodeRef) -> list[EntityName]:
        """Return all names of a dataset."""
        return [EntityName(*key) for key in self._index.aliases_of(dataset.name.key)]

    def operations(self, job: GraphNodeRef) -> list[EntityName]:
        """Return a job and, for a notebook, the jobs of its operations."""
        return [EntityName(*key) for key in self._index.job_and_operations(job.name.key)]

    def _jobs(self, dataset: GraphNodeRef, side: Side) -> list[GraphNodeRef]:
        direction = "OUTPUT" if side == "up" else "INPUT"
        rows = [row for name in self.aliases(dataset) for row in self._index.jobs_using(name.key, direction)]
        return [
            self.canonical(GraphNodeRef("job", EntityName(row["job_namespace"], row["job_name"])))
            for row in rows
            if self._existed_at(row)
        ]

    def _datasets(self, job: GraphNodeRef, side: Side) -> list[GraphNodeRef]:
        direction = "INPUT" if side == "up" else "OUTPUT"
        rows = [row for name in self.operations(job) for row in self._index.datasets_used_by(name.key, direction)]
        # In-memory frames are shown on the notebook page only.
        visible = [row for row in rows if row["dataset_namespace"] != NOTEBOOK_NAMESPACE and self._existed_at(row)]
        return [
            self.canonical(GraphNodeRef("dataset", EntityName(row["dataset_namespace"], row["dataset_name"])))
            for row in visible
        ]

    def _existed_at(self, row: Row) -> bool:
        if self._as_of is None:
            return True
        at = self._index.first_seen(
            (row["job_namespace"], row["job_name"]), row["direction"], (row["dataset_namespace"], row["dataset_name"])
        )
        return at is not None and at <= self._as_of


_MAX_EDGES = 20_000
# Code lines per edge through a notebook: the last ones before the write.
_MAX_CODE_LINES = 3


class ColumnEdgeView(Struct, frozen=True):
    """A column edge between two datasets, with the code behind it."""

    target: EntityName
    column: str | None
    source: EntityName
    source_column: str | None
    type: EdgeType
    subtype: str | None
    is_inferred: bool
    job: EntityName
    code: tuple[str, ...] = ()


def edges_from_facets(index: PageQueries, dataset: EntityName) -> list[ColumnEdgeView]:
    """Return the edges of the latest assertion on a dataset, without notebooks (see `edges_through_notebook`)."""
    return [
        ColumnEdgeView(
            target=dataset,
            column=row["column"],
            source=EntityName(row["source_namespace"], row["source_name"]),
            source_column=row["source_column"],
            type="INDIRECT" if row["type"] == "INDIRECT" else "DIRECT",
            subtype=row["subtype"],
            is_inferred=row["description"] in {"opaque", "inferred"},
            job=EntityName(row["job_namespace"] or "", row["job_name"] or ""),
            code=(row["description"],) if row["description"] not in {None, "", "opaque", "inferred"} else (),
        )
        for row in index.latest_column_edges(dataset.key, _MAX_EDGES)
        if row["session_id"] is None
    ]


def edges_through_notebook(run: NotebookRun, job: EntityName) -> list[ColumnEdgeView]:
    """Return the edges from the columns of files that a run read to those of files that it wrote."""
    run_states = track_states(run)
    incoming: defaultdict[tuple[int, str | None], list[PageEdge]] = defaultdict(list)
    for edge in run_states.edges:
        incoming[edge.target.state, edge.target.column].append(edge)
    edges = [
        edge
        for state in run_states.writes
        for field in run_states.states[state].columns
        for edge in _trace(run_states, incoming, Port(state, field.name), job)
    ]
    return list(dict.fromkeys(edges))


_Incoming = defaultdict[tuple[int, str | None], list[PageEdge]]


class _Path(Struct):
    port: Port
    type: EdgeType
    subtype: str | None
    is_inferred: bool
    code: tuple[str, ...]


def _trace(run_states: RunStates, incoming: _Incoming, root: Port, job: EntityName) -> Iterator[ColumnEdgeView]:
    target = run_states.states[root.state]
    queue = [_Path(root, "DIRECT", None, False, ())]  # noqa: FBT003
    seen: set[tuple[Port, EdgeType]] = set()
    for path in queue:
        if (path.port, path.type) in seen:
            continue
        seen.add((path.port, path.type))
        state = run_states.states[path.port.state]
        if path.port != root and state.namespace != NOTEBOOK_NAMESPACE:
            yield ColumnEdgeView(
                target=EntityName(target.namespace, target.name),
                column=root.column,
                source=EntityName(state.namespace, state.name),
                source_column=path.port.column,
                type=path.type,
                subtype=path.subtype,
                is_inferred=path.is_inferred,
                job=job,
                code=path.code,
            )
            continue
        # Edges into a frame as a whole apply to each of its columns.
        edges = [
            *incoming[path.port.state, path.port.column],
            *(incoming[path.port.state, None] if path.port.column else []),
        ]
        queue += [_extend(run_states, path, edge) for edge in edges if path.type == "DIRECT" or edge.type == "DIRECT"]


def _extend(run_states: RunStates, path: _Path, edge: PageEdge) -> _Path:
    is_identity = edge.subtype in {None, "IDENTITY"} or edge.operation is None
    code = () if is_identity or edge.operation is None else (run_states.operations[edge.operation].code,)
    # INDIRECT paths show the subtype of the INDIRECT edge; DIRECT ones that of the last step that is not IDENTITY.
    has_subtype = path.type == "INDIRECT" or (edge.type == "DIRECT" and path.subtype not in {None, "IDENTITY"})
    return _Path(
        port=edge.source,
        type="INDIRECT" if "INDIRECT" in {path.type, edge.type} else "DIRECT",
        subtype=path.subtype if has_subtype else edge.subtype,
        is_inferred=path.is_inferred or edge.flag is not None,
        code=tuple(dict.fromkeys([*path.code, *code]))[:_MAX_CODE_LINES],
    )


NODE_WIDTH = 208
CARD = CardMetrics(head=46, row=22, max_rows=6)
CARD_FOOT = 6
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


class Expansion(Struct, frozen=True):
    """A node that the user expanded, and the side."""

    side: Side
    node: GraphNodeRef


class GraphRequest(Struct, frozen=True):
    """The part of the graph to show."""

    centre: GraphNodeRef
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


def build_lineage_graph(index: PageQueries, request: GraphRequest) -> LineageGraphView:
    """Build the graph around a node."""
    neighbours = NeighbourCache(index, request.as_of)
    centre = neighbours.canonical(request.centre)
    _require(index, request.centre, centre)
    nodes = _within_hops(neighbours, centre, min(request.depth, MAX_DEPTH))
    columns: dict[GraphNodeRef, list[str]] = {}
    boxes = _initial_layout(index, neighbours, nodes, columns)
    for expansion in request.expansions:
        boxes = _expand(index, neighbours, boxes, expansion, columns)
    return _build_view(index, neighbours, centre, boxes, columns, is_grouped=request.is_grouped)


def build_path_graph(
    index: PageQueries, resources: QueryResources, start: GraphNodeRef, end: GraphNodeRef, as_of: datetime | None = None
) -> LineageGraphView:
    """Build the graph of a shortest path between two nodes, in either direction."""
    _, job_graph = resources.get_job_graph(index)
    view = JobGraphView(job_graph, ViewOptions(as_of=None if as_of is None else round(as_of.timestamp() * 1_000_000)))
    ends = [job_graph.find(graph_nodes.Node(node.kind, node.name.namespace, node.name.name)) for node in (start, end)]
    if ends[0] is None or ends[1] is None:
        raise UnknownNameError(f"No path between {start.id} and {end.id}.", hint="One of them has no lineage.")
    path = find_shortest_path(view, ends[0], ends[1]) or find_shortest_path(view, ends[1], ends[0])
    if path is None:
        raise UnknownNameError(f"No path between {start.name.name} and {end.name.name}.")
    neighbours = NeighbourCache(index, as_of)
    path_nodes = (job_graph.node(number) for number in path)
    nodes = [
        neighbours.canonical(GraphNodeRef(node.kind, EntityName(node.namespace, node.name))) for node in path_nodes
    ]
    columns: dict[GraphNodeRef, list[str]] = {}
    boxes = _initial_layout(index, neighbours, list(dict.fromkeys(nodes)), columns)
    return _build_view(index, neighbours, neighbours.canonical(start), boxes, columns, is_grouped=False)


_Boxes = dict[str, Box]


def _require(index: PageQueries, requested: GraphNodeRef, node: GraphNodeRef) -> None:
    exists = index.has_dataset(*requested.name.key) if requested.kind == "dataset" else index.has_job(*node.name.key)
    if not exists:
        names = index.dataset_page("", 1000)[0] if requested.kind == "dataset" else index.job_page("", 1000)[0]
        raise UnknownNameError.of(requested.kind, requested.name.name, [row["name"] for row in names])


def _within_hops(neighbours: NeighbourCache, centre: GraphNodeRef, depth: int) -> list[GraphNodeRef]:
    """Return the nodes within some hops upstream and downstream; dataset to dataset, over a job, is one hop."""
    nodes = {centre: None}
    max_neighbours = INITIAL_NEIGHBOURS if depth == 1 else MAX_NODES
    for side in ("up", "down"):
        frontier = [centre]
        for _ in range(depth * (2 if centre.kind == "dataset" else 1) + (depth - 1) * (centre.kind == "job")):
            frontier = [
                neighbour
                for node in frontier
                for neighbour in neighbours.get(node, side)[:max_neighbours]
                if neighbour not in nodes
            ]
            remaining = MAX_NODES - len(nodes)
            nodes |= dict.fromkeys(frontier[:remaining])
    return list(nodes)


def _initial_layout(
    index: PageQueries,
    neighbours: NeighbourCache,
    nodes: Sequence[GraphNodeRef],
    columns: dict[GraphNodeRef, list[str]],
) -> _Boxes:
    sizes = {node.id: _size(index, node, columns) for node in nodes}
    links = [(source.id, target.id) for source, target in _links(neighbours, nodes)]
    return compute_layered_layout(sizes, links, SPACING)


def _expand(
    index: PageQueries,
    neighbours: NeighbourCache,
    boxes: _Boxes,
    expansion: Expansion,
    columns: dict[GraphNodeRef, list[str]],
) -> _Boxes:
    """Add the neighbours of a node to the layout; for a dataset, also the datasets behind the jobs."""
    node = neighbours.canonical(expansion.node)
    if node.id not in boxes:
        return boxes
    adjacent = [other for other in neighbours.get(node, expansion.side) if other.id not in boxes][:MAX_EXPANDED]
    behind_jobs: list[GraphNodeRef] = []
    if node.kind == "dataset":
        jobs = neighbours.get(node, expansion.side)[:MAX_EXPANDED]
        datasets = [dataset for job in jobs for dataset in neighbours.get(job, expansion.side)[:INITIAL_NEIGHBOURS]]
        behind_jobs = [
            dataset for dataset in dict.fromkeys(datasets) if dataset.id not in boxes and dataset not in adjacent
        ]
    remaining = MAX_NODES - len(boxes)
    steps = [
        {added.id: _size(index, added, columns) for added in adjacent[:remaining]},
        {added.id: _size(index, added, columns) for added in behind_jobs[: max(0, remaining - len(adjacent))]},
    ]
    return extend_layout(boxes, node.id, steps, -1 if expansion.side == "up" else 1, SPACING)


def _size(index: PageQueries, node: GraphNodeRef, columns: dict[GraphNodeRef, list[str]]) -> Size:
    if node.kind == "job":
        return JOB_NODE
    columns[node] = column_names(index, DatasetName(*node.name.key))
    count = len(columns[node])
    rows = count if count <= CARD.max_rows else CARD.max_rows + 1
    return Size(width=NODE_WIDTH, height=CARD.head + rows * CARD.row + (CARD_FOOT if rows else 0))


def _links(neighbours: NeighbourCache, nodes: Iterable[GraphNodeRef]) -> list[tuple[GraphNodeRef, GraphNodeRef]]:
    shown = dict.fromkeys(nodes)
    pairs: dict[tuple[GraphNodeRef, GraphNodeRef], None] = {}
    for job in (node for node in shown if node.kind == "job"):
        pairs |= {(neighbour, job): None for neighbour in neighbours.get(job, "up") if neighbour in shown}
        pairs |= {(job, neighbour): None for neighbour in neighbours.get(job, "down") if neighbour in shown}
    return list(pairs)


def _build_view(
    index: PageQueries,
    neighbours: NeighbourCache,
    centre: GraphNodeRef,
    boxes: _Boxes,
    columns: Mapping[GraphNodeRef, list[str]],
    *,
    is_grouped: bool,
) -> LineageGraphView:
    nodes = [GraphNodeRef.parse(name) for name in boxes]
    group_of = {node.id: node.name.namespace for node in nodes}
    if is_grouped:
        boxes = group_into_bands(boxes, group_of, SPACING.node, GROUP_PAD + GROUP_HEAD)
    sessions = {node: _last_session(index, node) for node in nodes if node.kind == "job"}
    shown = set(nodes)
    time_range = index.time_range()
    return LineageGraphView(
        centre=centre.id,
        nodes=tuple(
            _node(index, neighbours, node, boxes[node.id], shown, columns, sessions.get(node)) for node in nodes
        ),
        links=tuple(PageLink(source.id, target.id, ()) for source, target in _links(neighbours, nodes)),
        edges=_edges(index, nodes, sessions),
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


def _last_session(index: PageQueries, job: GraphNodeRef) -> str | None:
    if job.name.namespace != NOTEBOOK_NAMESPACE:
        return None
    runs = index.runs_of_job(job.name.key, 1)
    return runs[0].session_id if runs else None


def _edges(
    index: PageQueries, nodes: Sequence[GraphNodeRef], sessions: Mapping[GraphNodeRef, str | None]
) -> tuple[LineageGraphEdge, ...]:
    positions = {node: i for i, node in enumerate(nodes)}
    column_edges = [edge for node in nodes if node.kind == "dataset" for edge in edges_from_facets(index, node.name)]
    for job, session in sessions.items():
        run = None if session is None else find_notebook_run(index, session)
        column_edges += [] if run is None else edges_through_notebook(run, job.name)
    edges = (_to_graph_edge(edge, positions) for edge in column_edges)
    return tuple(edge for edge in edges if edge is not None)


def _to_graph_edge(edge: ColumnEdgeView, positions: Mapping[GraphNodeRef, int]) -> LineageGraphEdge | None:
    source, target = (
        positions.get(GraphNodeRef("dataset", edge.source)),
        positions.get(GraphNodeRef("dataset", edge.target)),
    )
    if source is None or target is None:
        return None
    return LineageGraphEdge(
        source=Port(source, edge.source_column),
        target=Port(target, edge.column),
        type=edge.type,
        subtype=edge.subtype,
        flag="inferred" if edge.is_inferred else None,
        job=positions.get(GraphNodeRef("job", edge.job)),
        code=edge.code,
    )


def _node(
    index: PageQueries,
    neighbours: NeighbourCache,
    node: GraphNodeRef,
    box: Box,
    shown: set[GraphNodeRef],
    columns: Mapping[GraphNodeRef, list[str]],
    session_id: str | None,
) -> LineageGraphNode:
    names = columns.get(node, [])
    run = index.runs_of_job(node.name.key, 1) if node.kind == "job" else []
    return LineageGraphNode(
        id=node.id,
        kind=node.kind,
        namespace=node.name.namespace,
        name=node.name.name,
        label=_label(node.name),
        box=box,
        columns=tuple(Field(name, None) for name in names[:MAX_COLUMNS]),
        column_total=len(names),
        hidden_upstream=sum(neighbour not in shown for neighbour in neighbours.get(node, "up")),
        hidden_downstream=sum(neighbour not in shown for neighbour in neighbours.get(node, "down")),
        state=run[0].state if run else None,
        at=from_epoch_micros(run[0].start_time) if run else None,
        session_id=session_id,
    )


def _label(name: EntityName) -> str:
    """Return the last part of a path."""
    return name.name.rstrip("/").rsplit("/", 1)[-1] or name.name
