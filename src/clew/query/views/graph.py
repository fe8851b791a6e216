"""The graph around a dataset or a job: one hop each way, and more where someone asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from clew.events.notebook import FRAMES
from clew.index.browsing import Browser
from clew.query.graph import nodes as graph_nodes
from clew.query.graph.lens import Lens, Sight
from clew.query.graph.walk import path
from clew.query.holdings import Holdings
from clew.query.layout import Box, Size, Spacing, layered
from clew.query.layout_growth import around, banded, grown
from clew.query.model import Dataset, Field, State
from clew.query.moments import moment
from clew.query.names import UnknownNameError
from clew.query.notebook_runs import find_run
from clew.query.run_page_model import CardMetrics, Link, Port
from clew.query.schemas import column_names
from clew.query.views.column_edges import ColumnWay, notebook_ways, stated_ways
from clew.query.views.model import Name, NodeKind
from clew.query.views.neighbours import Neighbours, Node, Side

NODE_WIDTH = 208
CARD = CardMetrics(head=46, row=22, max_rows=6)
CARD_FOOT = 6
JOB_NODE = Size(width=196, height=48)
# Room below a node for the chip that says how much is hidden.
SPACING = Spacing(layer=64, node=34)
GROUP_PAD, GROUP_HEAD = 16.0, 26.0

# What is drawn at first on each side of a node; all of it after a press on the chip.
FIRST_SHOWN = 8
MOST_OPENED = 100
MAX_NODES = 1000
MAX_DEPTH = 20
# A node carries this many names of columns; the page of its dataset has them all.
MOST_COLUMNS = 200


class Opening(Struct, frozen=True):
    """A node that was opened, and to which side."""

    side: Side
    node: Node


class Request(Struct, frozen=True):
    """Which part of the graph to show."""

    centre: Node
    openings: tuple[Opening, ...] = ()
    depth: int = 1
    as_of: datetime | None = None
    is_grouped: bool = False


class GraphNode(Struct, frozen=True, rename="camel"):
    """A node where it stands, with as many of its columns as travel with it."""

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
    # Of a job: how its last run ended, when, and the notebook session it was.
    state: State | None = None
    at: datetime | None = None
    session_id: str | None = None


class GraphEdge(Struct, frozen=True, rename="camel"):
    """A column's way, its ends by the place of their nodes."""

    source: Port
    target: Port
    type: str
    subtype: str | None
    flag: str | None
    job: int | None
    code: tuple[str, ...]


class Group(Struct, frozen=True):
    """The frame around the nodes of a namespace."""

    name: str
    box: Box


class Span(Struct, frozen=True):
    """From the first event of any run to the last."""

    first: datetime | None
    last: datetime | None


class LineageGraph(Struct, frozen=True, rename="camel"):
    """A picture with everything in its place."""

    centre: str
    nodes: tuple[GraphNode, ...]
    links: tuple[Link, ...]
    edges: tuple[GraphEdge, ...]
    groups: tuple[Group, ...]
    span: Span
    is_cut: bool
    card: CardMetrics


def lineage_graph(index: Browser, request: Request) -> LineageGraph:
    """The graph that was asked for."""
    around_it = Neighbours(index, request.as_of)
    centre = around_it.node(request.centre)
    _require(index, request.centre, centre)
    near = _near(around_it, centre, min(request.depth, MAX_DEPTH))
    columns: dict[Node, list[str]] = {}
    boxes = _start(index, around_it, near, columns)
    for opening in request.openings:
        boxes = _opened(index, around_it, boxes, opening, columns)
    return _drawn(index, around_it, centre, boxes, columns, is_grouped=request.is_grouped)


def path_graph(
    index: Browser, holdings: Holdings, start: Node, end: Node, as_of: datetime | None = None
) -> LineageGraph:
    """Only what lies on a shortest way between two nodes, whichever of them comes first."""
    _, known = holdings.lineage(index)
    lens = Lens(known, Sight(as_of=None if as_of is None else round(as_of.timestamp() * 1_000_000)))
    ends = [known.find(graph_nodes.Node(node.kind, node.name.namespace, node.name.name)) for node in (start, end)]
    if ends[0] is None or ends[1] is None:
        raise UnknownNameError(f"Nothing leads from {start.id} to {end.id}.", hint="One of them has no lineage.")
    way = path(lens, ends[0], ends[1]) or path(lens, ends[1], ends[0])
    if way is None:
        raise UnknownNameError(f"Nothing leads from {start.name.name} to {end.name.name}, nor back.")
    around_it = Neighbours(index, as_of)
    found = (known.node(number) for number in way)
    nodes = [around_it.node(Node(one.kind, Name(one.namespace, one.name))) for one in found]
    columns: dict[Node, list[str]] = {}
    boxes = _start(index, around_it, list(dict.fromkeys(nodes)), columns)
    return _drawn(index, around_it, around_it.node(start), boxes, columns, is_grouped=False)


_Boxes = dict[str, Box]


def _require(index: Browser, asked: Node, node: Node) -> None:
    known = index.dataset(asked.name.parts) if asked.kind == "dataset" else index.job(node.name.parts)
    if known is None:
        names = index.dataset_page("", 1000)[0] if asked.kind == "dataset" else index.job_page("", 1000)[0]
        raise UnknownNameError.of(asked.kind, asked.name.name, [row["name"] for row in names])


def _near(around_it: Neighbours, centre: Node, depth: int) -> list[Node]:
    """One hop is two steps where a job lies between two datasets; never sideways."""
    found = {centre: None}
    most = FIRST_SHOWN if depth == 1 else MAX_NODES
    for side in ("up", "down"):
        edge = [centre]
        for _ in range(depth * (2 if centre.kind == "dataset" else 1) + (depth - 1) * (centre.kind == "job")):
            edge = [near for node in edge for near in around_it.of(node, side)[:most] if near not in found]
            room = MAX_NODES - len(found)
            found |= dict.fromkeys(edge[:room])
    return list(found)


def _start(index: Browser, around_it: Neighbours, nodes: Sequence[Node], columns: dict[Node, list[str]]) -> _Boxes:
    sizes = {node.id: _size(index, node, columns) for node in nodes}
    links = [(source.id, target.id) for source, target in _links(around_it, nodes)]
    return layered(sizes, links, SPACING)


def _opened(
    index: Browser, around_it: Neighbours, boxes: _Boxes, opening: Opening, columns: dict[Node, list[str]]
) -> _Boxes:
    """A node's neighbours join the picture, with theirs on the same side if those are jobs."""
    node = around_it.node(opening.node)
    if node.id not in boxes:
        return boxes
    beside = [near for near in around_it.of(node, opening.side) if near.id not in boxes][:MOST_OPENED]
    beyond: list[Node] = []
    if node.kind == "dataset":
        jobs = around_it.of(node, opening.side)[:MOST_OPENED]
        reached = [far for job in jobs for far in around_it.of(job, opening.side)[:FIRST_SHOWN]]
        beyond = [far for far in dict.fromkeys(reached) if far.id not in boxes and far not in beside]
    room = MAX_NODES - len(boxes)
    steps = [
        {one.id: _size(index, one, columns) for one in beside[:room]},
        {one.id: _size(index, one, columns) for one in beyond[: max(0, room - len(beside))]},
    ]
    return grown(boxes, node.id, steps, -1 if opening.side == "up" else 1, SPACING)


def _size(index: Browser, node: Node, columns: dict[Node, list[str]]) -> Size:
    if node.kind == "job":
        return JOB_NODE
    columns[node] = column_names(index, Dataset(*node.name.parts))
    count = len(columns[node])
    rows = count if count <= CARD.max_rows else CARD.max_rows + 1
    return Size(width=NODE_WIDTH, height=CARD.head + rows * CARD.row + (CARD_FOOT if rows else 0))


def _links(around_it: Neighbours, nodes: Iterable[Node]) -> list[tuple[Node, Node]]:
    shown = dict.fromkeys(nodes)
    pairs: dict[tuple[Node, Node], None] = {}
    for job in (node for node in shown if node.kind == "job"):
        pairs |= {(near, job): None for near in around_it.of(job, "up") if near in shown}
        pairs |= {(job, near): None for near in around_it.of(job, "down") if near in shown}
    return list(pairs)


def _drawn(
    index: Browser,
    around_it: Neighbours,
    centre: Node,
    boxes: _Boxes,
    columns: Mapping[Node, list[str]],
    *,
    is_grouped: bool,
) -> LineageGraph:
    nodes = [Node.of(name) for name in boxes]
    group_of = {node.id: node.name.namespace for node in nodes}
    if is_grouped:
        boxes = banded(boxes, group_of, SPACING.node, GROUP_PAD + GROUP_HEAD)
    sessions = {node: _last_session(index, node) for node in nodes if node.kind == "job"}
    shown = set(nodes)
    span = index.time_span()
    return LineageGraph(
        centre=centre.id,
        nodes=tuple(
            _node(index, around_it, node, boxes[node.id], shown, columns, sessions.get(node)) for node in nodes
        ),
        links=tuple(Link(source.id, target.id, ()) for source, target in _links(around_it, nodes)),
        edges=_edges(index, nodes, sessions),
        groups=_groups(boxes, group_of) if is_grouped else (),
        span=Span(None, None) if span is None else Span(moment(span["first"]), moment(span["last"])),
        is_cut=len(boxes) >= MAX_NODES,
        card=CARD,
    )


def _groups(boxes: _Boxes, group_of: Mapping[str, str]) -> tuple[Group, ...]:
    return tuple(
        Group(group, around((boxes[name] for name in boxes if group_of[name] == group), GROUP_PAD, GROUP_HEAD))
        for group in dict.fromkeys(group_of.values())
    )


def _last_session(index: Browser, job: Node) -> str | None:
    if job.name.namespace != FRAMES:
        return None
    runs, _ = index.runs_of(job.name.parts, 1)
    return runs[0]["session_id"] if runs else None


def _edges(index: Browser, nodes: Sequence[Node], sessions: Mapping[Node, str | None]) -> tuple[GraphEdge, ...]:
    place = {node: i for i, node in enumerate(nodes)}
    ways = [way for node in nodes if node.kind == "dataset" for way in stated_ways(index, node.name)]
    for job, session in sessions.items():
        run = None if session is None else find_run(index, session)
        ways += [] if run is None else notebook_ways(run, job.name)
    found = (_edge(way, place) for way in ways)
    return tuple(edge for edge in found if edge is not None)


def _edge(way: ColumnWay, place: Mapping[Node, int]) -> GraphEdge | None:
    source, target = place.get(Node("dataset", way.source)), place.get(Node("dataset", way.target))
    if source is None or target is None:
        return None
    return GraphEdge(
        source=Port(source, way.source_column),
        target=Port(target, way.column),
        type=way.type,
        subtype=way.subtype,
        flag="inferred" if way.is_guessed else None,
        job=place.get(Node("job", way.job)),
        code=way.code,
    )


def _node(
    index: Browser,
    around_it: Neighbours,
    node: Node,
    box: Box,
    shown: set[Node],
    columns: Mapping[Node, list[str]],
    session_id: str | None,
) -> GraphNode:
    names = columns.get(node, [])
    run = index.runs_of(node.name.parts, 1)[0] if node.kind == "job" else []
    return GraphNode(
        id=node.id,
        kind=node.kind,
        namespace=node.name.namespace,
        name=node.name.name,
        label=_label(node.name),
        box=box,
        columns=tuple(Field(name, None) for name in names[:MOST_COLUMNS]),
        column_total=len(names),
        hidden_upstream=sum(near not in shown for near in around_it.of(node, "up")),
        hidden_downstream=sum(near not in shown for near in around_it.of(node, "down")),
        state=run[0]["state"] if run else None,
        at=moment(run[0]["started_at"]) if run else None,
        session_id=session_id,
    )


def _label(name: Name) -> str:
    """The last part of a path, which is how a person calls it."""
    return name.name.rstrip("/").rsplit("/", 1)[-1] or name.name
