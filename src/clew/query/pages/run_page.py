"""Page of a notebook run: lanes, graphs, explanations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from clew.errors import UsageError
from clew.query.graph.column_graph import AdjacentColumn
from clew.query.graph.traversal import UNLIMITED, Traversal, TraversedEdge, breadth_first, traverse_columns
from clew.query.layout import Box, Size, Spacing, compute_layered_layout
from clew.query.model import (
    CellExecution,
    LineageStep,
    NotebookRun,
    Transformation,
    indirect_phrase,
    is_intermediate_frame,
)
from clew.query.notebooks.reports import peak_memory_mb, total_ms
from clew.query.notebooks.session import RunStates, display_name, find_error_line, split_script, track_states
from clew.query.pages.run_page_model import (
    CardMetrics,
    CellMetrics,
    ColumnExplanation,
    ExplanationStep,
    Lane,
    LanesView,
    PageCell,
    PageEdge,
    PageError,
    PageGraphNode,
    PageGraphView,
    PageHeader,
    PageLink,
    PageOperation,
    PageState,
    Port,
    RunPage,
    SentencePart,
)

READS_WIDTH = 264
CELLS_WIDTH = 580
WRITES_WIDTH = 264
GUTTER = 76
GAP = 12

# A longer column list is truncated; an extra row shows the number of columns.
LANE_CARD = CardMetrics(head=54, row=24, max_rows=8)
CELL = CellMetrics(head=36, line=18, ports=30)
CELL_FOOT = 12
# A Markdown cell is folded to its heading.
MARKDOWN_HEIGHT = 24
# Lines of code shown in a collapsed cell.
MAX_LINES = 5
_MAX_LINE_DIGITS = 9


def compute_lane_boxes(
    states: Sequence[PageState],
    cells: Sequence[PageCell],
    reads: Iterable[int],
    shown_cells: Iterable[int],
    writes: Iterable[int],
) -> dict[str, Box]:
    """Compute the box of each card in the three lanes."""
    lanes = [
        (0.0, READS_WIDTH, {f"state:{i}": card_height(states[i]) for i in reads}),
        (READS_WIDTH + GUTTER, CELLS_WIDTH, {f"cell:{i}": cell_height(cells[i]) for i in shown_cells}),
        (READS_WIDTH + CELLS_WIDTH + 2 * GUTTER, WRITES_WIDTH, {f"state:{i}": card_height(states[i]) for i in writes}),
    ]
    boxes: dict[str, Box] = {}
    for x, width, heights in lanes:
        # A file that is read and then overwritten is two states, so no card is in two lanes.
        boxes |= _stack(x, width, heights)
    return boxes


def _stack(x: float, width: float, heights: Mapping[str, float]) -> dict[str, Box]:
    boxes: dict[str, Box] = {}
    y = 0.0
    for name, height in heights.items():
        boxes[name] = Box(x=x, y=y, width=width, height=height)
        y += height + GAP
    return boxes


def measure_extent(boxes: Iterable[Box]) -> tuple[float, float]:
    """Return the total width and height."""
    placed = list(boxes)
    width = READS_WIDTH + CELLS_WIDTH + WRITES_WIDTH + 2 * GUTTER
    return width, max((box.bottom for box in placed), default=0.0)


def card_height(state: PageState) -> float:
    """Return the height of a dataset card: title and one row per visible column."""
    return LANE_CARD.height(len(state.columns))


def cell_height(cell: PageCell) -> float:
    """Return the height of a cell card: title, visible lines of code, error, columns of its frames."""
    if cell.is_markdown and cell.error is None:
        return MARKDOWN_HEIGHT
    lines = len(cell.shown_lines) + (cell.error is not None)
    return CELL.head + lines * CELL.line + (CELL.ports if cell.frames else 0) + CELL_FOOT


# Limits of the sentence; the rest is counted, and the tree has everything.
_MAX_CODES = 3
_MAX_SOURCES = 3


def explain_column(
    root: LineageStep, port: Port, run_states: RunStates, cells: Mapping[str, int | None]
) -> ColumnExplanation:
    """Explain the column at `port` with upstream tree `root`; `cells` maps the run of an operation to its cell."""
    return ColumnExplanation(port=port, sentence=_sentence(run_states, port), tree=_explanation_tree(root, cells))


def _explanation_tree(step: LineageStep, cells: Mapping[str, int | None]) -> ExplanationStep:
    edge, operation = step.edge, step.operation
    return ExplanationStep(
        label=display_name(step.dataset),
        version=step.version,
        column=step.column,
        type=edge.type if edge else None,
        subtype=edge.subtype if edge else None,
        flag=edge.flag if edge else None,
        cell=cells.get(operation.run_uuid) if operation else None,
        line=operation.line if operation else None,
        code=operation.code if operation else None,
        upstream=tuple(_explanation_tree(child, cells) for child in sorted(step.upstream, key=_step_order)),
        is_repeated=step.is_repeated,
    )


def _step_order(step: LineageStep) -> tuple[bool, str, str]:
    return step.is_indirect, display_name(step.dataset), step.column or ""


def _sentence(run_states: RunStates, root: Port) -> tuple[SentencePart, ...]:
    target = SentencePart(
        kind="target", text=_column_label(run_states.states[root.state].label, [root.column or "all columns"])
    )
    graph = _RunGraph(run_states)
    edges = traverse_columns(graph, [graph.find(root)], depth=UNLIMITED, limit=UNLIMITED, indirect="follow").edges
    if not edges:
        is_external = run_states.states[root.state].producer is None
        text = "comes from outside this run" if is_external else "no source was recorded"
        return (target, SentencePart(kind="summary", text=text))
    leaves = [edge for edge in edges if not graph.adjacent_columns(edge.start)]
    return (
        target,
        *_code_parts(run_states, edges),
        *_source_parts(run_states, [graph.ports[edge.start] for edge in leaves if edge.path.type == "DIRECT"]),
        *_indirect_parts(
            run_states,
            [
                (indirect_phrase(edge.path.subtype), graph.ports[edge.start])
                for edge in leaves
                if edge.path.type == "INDIRECT"
            ],
        ),
        _summary_part(edges),
    )


class _RunGraph:
    """Column graph of one run; columns are numbered as found. The origin of an edge is its operation."""

    def __init__(self, run_states: RunStates) -> None:
        self._labels = [state.label for state in run_states.states]
        self._into_port: defaultdict[Port, list[PageEdge]] = defaultdict(list)
        self._into_state: defaultdict[int, list[PageEdge]] = defaultdict(list)
        for edge in run_states.edges:
            self._into_port[edge.target].append(edge)
            self._into_state[edge.target.state].append(edge)
        self._numbers: dict[Port, int] = {}
        self.ports: list[Port] = []

    def find(self, port: Port) -> int:
        number = self._numbers.setdefault(port, len(self.ports))
        if number == len(self.ports):
            self.ports.append(port)
        return number

    def adjacent_columns(self, number: int, *, is_forward: bool = False) -> list[AdjacentColumn]:
        """Return the edges into a column, DIRECT first, including those of the whole dataset."""
        port = self.ports[number]
        if is_forward:
            return []
        if port.column is None:
            edges = self._into_state.get(port.state, [])
        else:
            edges = [*self._into_port.get(port, ()), *self._into_port.get(Port(port.state, None), ())]
        return [
            AdjacentColumn(
                self.find(edge.source), Transformation(edge.type, edge.subtype, edge.flag), None, edge.operation
            )
            for edge in sorted(edges, key=self._order)
        ]

    def _order(self, edge: PageEdge) -> tuple[bool, str, str]:
        return edge.type == "INDIRECT", self._labels[edge.source.state], edge.source.column or ""


def _code_parts(run_states: RunStates, edges: Iterable[TraversedEdge]) -> list[SentencePart]:
    """List the operations that transformed values, last one first."""
    transforming = (
        edge for edge in edges if edge.path.type == "DIRECT" and edge.transformation.subtype not in {None, "IDENTITY"}
    )
    positions = list(dict.fromkeys(edge.origin for edge in transforming if edge.origin is not None))
    rest = len(positions) - _MAX_CODES
    more = [SentencePart(kind="code", text=f"{rest} more")] if rest > 0 else []
    return [_code_part(run_states, position) for position in positions[:_MAX_CODES]] + more


def _code_part(run_states: RunStates, position: int) -> SentencePart:
    operation = run_states.operations[position]
    return SentencePart(kind="code", text=operation.code, cell=operation.cell, line=operation.line)


def _source_parts(run_states: RunStates, ports: Iterable[Port]) -> list[SentencePart]:
    return [SentencePart(kind="source", text=text) for text in _group_by_dataset(run_states, ports)]


def _indirect_parts(run_states: RunStates, sources: Iterable[tuple[str, Port]]) -> list[SentencePart]:
    ports: defaultdict[str, list[Port]] = defaultdict(list)
    for phrase, port in sources:
        ports[phrase].append(port)
    texts = [f"{phrase} {', '.join(_group_by_dataset(run_states, ports[phrase]))}" for phrase in sorted(ports)]
    return [SentencePart(kind="indirect", text=text) for text in texts]


def _group_by_dataset(run_states: RunStates, ports: Iterable[Port]) -> list[str]:
    columns: defaultdict[str, set[str]] = defaultdict(set)
    for port in ports:
        columns[run_states.states[port.state].label].add(port.column or "unknown column")
    texts = [_column_label(label, sorted(columns[label])) for label in sorted(columns)]
    rest = len(texts) - _MAX_SOURCES
    return texts if rest <= 0 else [*texts[:_MAX_SOURCES], f"{rest} more"]


def _column_label(label: str, columns: Iterable[str]) -> str:
    return f"{label} · {', '.join(columns)}"


def _summary_part(edges: Sequence[TraversedEdge]) -> SentencePart:
    count = len({edge.origin for edge in edges if edge.origin is not None})
    inferred = len({edge.origin for edge in edges if edge.transformation.description})
    accuracy = f"{inferred} inferred" if inferred else "all exact"
    return SentencePart(kind="summary", text=f"{count} {'step' if count == 1 else 'steps'}, {accuracy}")


NODE_WIDTH = 184
# Rows are slots that the web UI fills with the columns of the selected path, so node sizes never change.
GRAPH_CARD = CardMetrics(head=46, row=22, max_rows=5)
CELL_NODE = Size(width=136, height=48)
SPACING = Spacing(layer=48, node=26)

# React Flow renders 400 nodes without a long frame; larger sessions are shown around the focus.
MAX_NODES = 400
# Each view is small, but all of them are part of the page.
MAX_HOP_VIEWS = 60


def build_session_links(states: Sequence[PageState], operations: Sequence[PageOperation]) -> tuple[PageLink, ...]:
    """Link each state to the cells that read or produce it; states used only inside their cell are omitted."""
    pairs: dict[tuple[str, str], int] = {}
    for operation in operations:
        if operation.cell is not None:
            cell = f"cell:{operation.cell}"
            pairs |= {
                (f"state:{i}", cell): i for i in operation.inputs if _cell_of(states[i], operations) != operation.cell
            }
            pairs |= {(cell, f"state:{i}"): i for i in operation.outputs}
    leaving = {source for source, target in pairs if target.startswith("cell:")} | _final_states(states)
    return tuple(PageLink(s, t, (i,)) for (s, t), i in pairs.items() if s.startswith("state:") or t in leaving)


def _cell_of(state: PageState, operations: Sequence[PageOperation]) -> int | None:
    return None if state.producer is None else operations[state.producer].cell


def _final_states(states: Sequence[PageState]) -> set[str]:
    """Return the last state of each dataset, without intermediate frames."""
    last_positions = {(state.namespace, state.name): position for position, state in enumerate(states)}
    return {f"state:{position}" for position in last_positions.values() if not _is_intermediate(states[position])}


def _is_intermediate(state: PageState) -> bool:
    return is_intermediate_frame(state.namespace, state.name)


def build_graph_views(
    states: Sequence[PageState], links: Sequence[PageLink], focus: int | None
) -> tuple[PageGraphView, ...]:
    """Build the view of the session, and a one-hop view per dataset (focus first, up to MAX_HOP_VIEWS)."""
    nodes = list(dict.fromkeys(end for link in links for end in (link.source, link.target)))
    pairs = [(link.source, link.target) for link in links]
    session_nodes = nodes if len(nodes) <= MAX_NODES else _nearest(f"state:{focus}", nodes, pairs)
    centres = sorted((n for n in nodes if n.startswith("state:")), key=lambda n: n != f"state:{focus}")[:MAX_HOP_VIEWS]
    # One hop between datasets is two links: to the cell and from it.
    hop_views = [
        _build_view(_state_position(centre), nodes_within_hops(centre, pairs, 2), states, links, len(nodes))
        for centre in centres
    ]
    return (_build_view(None, session_nodes, states, links, len(nodes)), *hop_views)


def nodes_within_hops(centre: str, pairs: Iterable[tuple[str, str]], hops: int) -> list[str]:
    """Return the nodes at most `hops` links upstream or downstream of `centre`, nearest first."""
    adjacent: dict[bool, defaultdict[str, list[str]]] = {True: defaultdict(list), False: defaultdict(list)}
    for source, target in pairs:
        adjacent[True][source].append(target)
        adjacent[False][target].append(source)

    def expand(node: str, is_forward: bool) -> Iterator[tuple[str, str, None]]:  # noqa: FBT001
        return ((end, end, None) for end in adjacent[is_forward].get(node, ()))

    traversal: Traversal[str, None] = breadth_first({centre: centre}, expand, "both", depth=hops, limit=UNLIMITED)
    return list(traversal.distances)


def _nearest(centre: str, nodes: Sequence[str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    existing = set(nodes)
    reachable = [node for node in nodes_within_hops(centre, pairs, len(nodes)) if node in existing]
    return list(dict.fromkeys([*reachable, *reversed(nodes)]))[:MAX_NODES]


def _state_position(name: str) -> int:
    return int(name.removeprefix("state:"))


def _build_view(
    centre: int | None, names: Sequence[str], states: Sequence[PageState], links: Sequence[PageLink], total: int
) -> PageGraphView:
    shown = set(names)
    inside = tuple(link for link in links if link.source in shown and link.target in shown)
    sizes = {name: measure_node(name, states) for name in names}
    boxes = compute_layered_layout(sizes, [(link.source, link.target) for link in inside], SPACING)
    up = _count_hidden(((link.target, link.source) for link in links), shown)
    down = _count_hidden(((link.source, link.target) for link in links), shown)
    nodes = tuple(PageGraphNode(name, box, up.get(name, 0), down.get(name, 0)) for name, box in boxes.items())
    scope: Literal["hop", "session"] = "session" if centre is None else "hop"
    return PageGraphView(scope=scope, centre=centre, nodes=nodes, links=inside, total=total, card=GRAPH_CARD)


def _count_hidden(pairs: Iterable[tuple[str, str]], shown: set[str]) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for node, neighbour in dict.fromkeys(pairs):
        if node in shown and neighbour not in shown:
            counts[node] = counts.get(node, 0) + 1
    return counts


def measure_node(name: str, states: Sequence[PageState]) -> Size:
    """Return the size of a node; a dataset has a slot for each of its first columns."""
    if name.startswith("cell:"):
        return CELL_NODE
    return Size(width=NODE_WIDTH, height=GRAPH_CARD.height(len(states[_state_position(name)].columns)))


# Size limits of a page; the totals are always shown.
MAX_CARDS = 60
MAX_CELLS = 200
MAX_EDGES = 20_000
MAX_SOURCE_CHARS = 20_000


def build_run_page(run: NotebookRun, *, upstream: LineageStep | None = None) -> RunPage:
    """Build the page of `run`, focused on the column of `upstream`, or on one that the run wrote."""
    whole, run = run, split_script(run)
    run_states = track_states(run)
    port = _default_focus(run_states) if upstream is None else _find_port(run_states, upstream, run.notebook)
    cells = _page_cells(run, run_states)
    cell_positions = {cell.execution_id: position for position, cell in enumerate(run.cells)}
    operation_cells = {operation.run_uuid: cell_positions.get(operation.execution_id) for operation in run.operations}
    links = build_session_links(run_states.states, run_states.operations)
    return RunPage(
        format=1,
        header=_header(whole),
        focus=port,
        explanation=explain_column(upstream, port, run_states, operation_cells)
        if upstream is not None and port is not None
        else None,
        states=run_states.states,
        operations=run_states.operations,
        cells=cells,
        edges=run_states.edges[-MAX_EDGES:],
        edge_total=len(run_states.edges),
        lanes=_lanes_view(run_states, cells),
        graphs=build_graph_views(run_states.states, links, None if port is None else port.state),
    )


def _find_port(run_states: RunStates, focus: LineageStep, notebook: str) -> Port:
    """Find the last state with that name, version and column."""
    for position in reversed(range(len(run_states.states))):
        state = run_states.states[position]
        is_same_dataset = (state.namespace, state.name) == (focus.dataset.namespace, focus.dataset.name)
        if (
            is_same_dataset
            and focus.version in {None, state.version}
            and focus.column in {None, *(c.name for c in state.columns)}
        ):
            return Port(position, focus.column)
    name = f"{display_name(focus.dataset)} · {focus.column}"
    raise UsageError(f"No column {name!r} in this run of {notebook}.", hint="`clew show` lists the columns of the run.")


def _default_focus(run_states: RunStates) -> Port | None:
    """Choose the last column with lineage, of the last output or else the last state."""
    traced_columns = {(edge.target.state, edge.target.column) for edge in run_states.edges}
    for position in (*reversed(run_states.writes), *reversed(range(len(run_states.states)))):
        columns = [
            field.name for field in run_states.states[position].columns if (position, field.name) in traced_columns
        ]
        if columns:
            return Port(position, columns[-1])
    return None


def _header(run: NotebookRun) -> PageHeader:
    return PageHeader(
        session_id=run.session_id,
        notebook=run.notebook,
        state=run.state,
        started_at=run.started_at,
        duration_ms=_duration_ms(run),
        cell_count=len(run.cells),
        failed_count=sum(cell.state == "failed" for cell in run.cells),
        peak_memory_mb=peak_memory_mb(run),
        losses=run.losses,
    )


def _duration_ms(run: NotebookRun) -> float | None:
    if run.started_at is None or run.ended_at is None:
        return None
    return (run.ended_at - run.started_at).total_seconds() * 1000


def _page_cells(run: NotebookRun, run_states: RunStates) -> tuple[PageCell, ...]:
    operations_by_cell: defaultdict[int | None, list[PageOperation]] = defaultdict(list)
    for operation in run_states.operations:
        operations_by_cell[operation.cell].append(operation)
    # Cells run one after another; the sum of their durations excludes idle time of the notebook.
    cells_ms = total_ms(run)
    # Numbers of the notebook and positions would collide.
    is_numbered = all(cell.index for cell in run.cells)
    cells: list[PageCell] = []
    elapsed_ms = 0.0
    for position, cell in enumerate(run.cells):
        cells.append(
            _page_cell(
                position,
                cell,
                operations_by_cell[position],
                run_states,
                elapsed_ms / cells_ms if cells_ms else 0.0,
                cells_ms,
                is_numbered=is_numbered,
            )
        )
        elapsed_ms += cell.duration_ms or 0
    return tuple(cells)


def _page_cell(
    position: int,
    cell: CellExecution,
    operations: Sequence[PageOperation],
    run_states: RunStates,
    offset: float,
    cells_ms: float,
    *,
    is_numbered: bool,
) -> PageCell:
    frames = _final_frames(operations, run_states)
    error = _page_error(cell)
    source = cell.source[:MAX_SOURCE_CHARS]
    return PageCell(
        execution_id=cell.execution_id,
        cell_id=cell.cell_id,
        number=cell.index if is_numbered and cell.index is not None else position + 1,
        title=_title(cell, [run_states.states[frame].label for frame in frames]),
        is_markdown=cell.is_markdown,
        state=cell.state,
        source=source,
        shown_lines=_shown_lines(source, operations, error),
        error=error,
        started_at=cell.started_at,
        duration_ms=cell.duration_ms,
        offset=round(offset, 4),
        share=round((cell.duration_ms or 0) / cells_ms, 4) if cells_ms else 0.0,
        start_memory_mb=cell.start_memory_mb,
        end_memory_mb=cell.end_memory_mb,
        frames=frames,
    )


def _final_frames(operations: Iterable[PageOperation], run_states: RunStates) -> tuple[int, ...]:
    """Return the last state of each frame that a cell assigned to a variable."""
    last_positions = {
        run_states.states[i].name: i for op in operations for i in op.outputs if run_states.states[i].kind == "frame"
    }
    return tuple(i for i in last_positions.values() if not _is_intermediate(run_states.states[i]))


def _title(cell: CellExecution, frames: Sequence[str]) -> str:
    return cell.own_name or ", ".join(frames) or cell.title


def _shown_lines(source: str, operations: Sequence[PageOperation], error: PageError | None) -> tuple[int, ...]:
    """Select lines with operations first, then others from the top; none for a cell without operations."""
    if not operations and error is None:
        return ()
    lines = source.splitlines()
    code_lines = [number for number, line in enumerate(lines, start=1) if line.strip()]
    operation_lines = [op.line for op in operations if op.line] + ([error.line] if error and error.line else [])
    candidates = [number for number in dict.fromkeys([*operation_lines, *code_lines]) if number in set(code_lines)]
    return tuple(sorted(candidates[:MAX_LINES]))


def _page_error(cell: CellExecution) -> PageError | None:
    if cell.error is None:
        return None
    # A part of a script has the number of its first line in its id.
    line = cell.execution_id.partition(":")[2]
    first_line = int(line) if line.isdecimal() and len(line) < _MAX_LINE_DIGITS else 1
    return PageError(
        type=cell.error.type,
        message=cell.error.message,
        traceback=cell.error.traceback,
        line=find_error_line(cell.error.traceback, len(cell.source.splitlines()), first_line),
    )


def _lanes_view(run_states: RunStates, cells: Sequence[PageCell]) -> LanesView:
    writes = _lane(run_states.writes, MAX_CARDS)
    reads = _lane([position for position in run_states.reads if position not in set(run_states.writes)], MAX_CARDS)
    # Of a long session the last cells are shown.
    shown_cells = Lane(items=tuple(range(len(cells)))[-MAX_CELLS:], total=len(cells))
    boxes = compute_lane_boxes(run_states.states, cells, reads.items, shown_cells.items, writes.items)
    width, height = measure_extent(boxes.values())
    links = tuple(link for link in _lane_links(run_states) if link.source in boxes and link.target in boxes)
    return LanesView(
        reads=reads,
        cells=shown_cells,
        writes=writes,
        links=links,
        boxes=boxes,
        width=width,
        height=height,
        card=LANE_CARD,
        cell=CELL,
    )


def _lane(positions: Sequence[int], limit: int) -> Lane:
    return Lane(items=tuple(positions[:limit]), total=len(positions))


def _lane_links(run_states: RunStates) -> list[PageLink]:
    """Link files to the cells that read them, cells to cells, and cells to the files they write."""
    states_by_link: defaultdict[tuple[str, str], dict[int, None]] = defaultdict(dict)
    for operation in run_states.operations:
        cell = f"cell:{operation.cell}"
        for state in operation.inputs:
            states_by_link[_origin(state, run_states), cell][state] = None
        for state in operation.outputs:
            states_by_link[cell, f"state:{state}"][state] = None
    return [
        PageLink(source, target, tuple(states))
        for (source, target), states in states_by_link.items()
        if source != target
    ]


def _origin(state: int, run_states: RunStates) -> str:
    producer = run_states.states[state].producer
    return f"state:{state}" if producer is None else f"cell:{run_states.operations[producer].cell}"
