"""Build the page of a notebook run, optionally with the explanation of one column."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from clew.errors import UsageError
from clew.query.layout_graph import build_graph_views, build_session_links, is_intermediate_state
from clew.query.layout_lanes import CELL, LANE_CARD, MAX_LINES, compute_lane_boxes, measure_extent
from clew.query.run_page_answer import explain_column
from clew.query.run_page_model import (
    ColumnAddress,
    Lane,
    LanesView,
    PageCell,
    PageError,
    PageHeader,
    PageLink,
    Port,
    RunPage,
)
from clew.query.run_page_states import RunStates, display_name, track_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clew.query.model import CellExecution, LineageStep, NotebookRun
    from clew.query.run_page_model import PageOperation

# Size limits of a page; the totals are always shown.
MAX_CARDS = 60
MAX_CELLS = 200
MAX_EDGES = 20_000
MAX_SOURCE_CHARS = 20_000


def build_run_page(
    run: NotebookRun, *, focus: ColumnAddress | None = None, upstream: LineageStep | None = None
) -> RunPage:
    """Build the page of `run`, focused on the column of `upstream`, on `focus`, or on one that the run wrote."""
    run_states = track_states(run)
    if upstream is not None:
        focus = ColumnAddress(upstream.dataset, upstream.version, upstream.column)
    port = _default_focus(run_states) if focus is None else _find_port(run_states, focus, run.notebook)
    cells = _page_cells(run, run_states)
    cell_positions = {cell.execution_id: position for position, cell in enumerate(run.cells)}
    links = build_session_links(run_states.states, run_states.operations)
    return RunPage(
        format=1,
        header=_header(run),
        focus=port,
        explanation=explain_column(upstream, port, run_states, cell_positions)
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


def _find_port(run_states: RunStates, focus: ColumnAddress, notebook: str) -> Port:
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
    memory = [mb for cell in run.cells for mb in (cell.start_memory_mb, cell.end_memory_mb) if mb is not None]
    return PageHeader(
        session_id=run.session_id,
        notebook=run.notebook,
        state=run.state,
        started_at=run.started_at,
        duration_ms=_duration_ms(run),
        cell_count=len(run.cells),
        failed_count=sum(cell.state == "failed" for cell in run.cells),
        peak_memory_mb=max(memory, default=None),
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
    total_ms = sum(cell.duration_ms or 0 for cell in run.cells)
    cells: list[PageCell] = []
    elapsed_ms = 0.0
    for position, cell in enumerate(run.cells):
        cells.append(
            _page_cell(
                position,
                cell,
                operations_by_cell[position],
                run_states,
                elapsed_ms / total_ms if total_ms else 0.0,
                total_ms,
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
    total_ms: float,
) -> PageCell:
    frames = _final_frames(operations, run_states)
    error = _page_error(cell)
    source = cell.source[:MAX_SOURCE_CHARS]
    return PageCell(
        execution_id=cell.execution_id,
        cell_id=cell.cell_id,
        number=cell.index or position + 1,
        title=_title(cell, [run_states.states[frame].label for frame in frames]),
        state=cell.state,
        source=source,
        shown_lines=_shown_lines(source, operations, error),
        error=error,
        started_at=cell.started_at,
        duration_ms=cell.duration_ms,
        offset=round(offset, 4),
        share=round((cell.duration_ms or 0) / total_ms, 4) if total_ms else 0.0,
        start_memory_mb=cell.start_memory_mb,
        end_memory_mb=cell.end_memory_mb,
        frames=frames,
    )


def _final_frames(operations: Iterable[PageOperation], run_states: RunStates) -> tuple[int, ...]:
    """Return the last state of each frame that a cell assigned to a variable."""
    last_positions = {
        run_states.states[i].name: i for op in operations for i in op.outputs if run_states.states[i].kind == "frame"
    }
    return tuple(i for i in last_positions.values() if not is_intermediate_state(run_states.states[i]))


def _title(cell: CellExecution, frames: Sequence[str]) -> str:
    # marimo names unnamed cells `_`.
    if cell.name and cell.name != "_":
        return cell.name
    return ", ".join(frames) or f"cell {cell.cell_id}"


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
    return PageError(
        type=cell.error.type,
        message=cell.error.message,
        traceback=cell.error.traceback,
        line=_error_line(cell.error.traceback, len(cell.source.splitlines())),
    )


def _error_line(traceback: str, line_count: int) -> int | None:
    numbers = [int(number) for number in re.findall(r"\bline (\d{1,6})\b", traceback)]
    return next((number for number in reversed(numbers) if 1 <= number <= line_count), None)


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
