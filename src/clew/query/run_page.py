"""The page of one notebook run, from the run and the answer to the question that was asked."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from clew.errors import UsageError
from clew.query.layout_graph import graph_views, is_unnamed, session_links
from clew.query.layout_lanes import CARD, CELL, MAX_LINES, extent, lane_boxes
from clew.query.run_page_answer import column_answer
from clew.query.run_page_model import ColumnAddress, Header, Lane, LanesView, Link, PageCell, PageError, Port, RunPage
from clew.query.run_page_states import RunStates, dataset_label, run_states

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clew.query.model import CellExecution, Hop, NotebookRun
    from clew.query.run_page_model import PageOperation

# What one page may hold. More is counted and said, never dropped in silence.
MAX_CARDS = 60
MAX_CELLS = 200
MAX_EDGES = 20_000
MAX_SOURCE = 20_000


def run_page(run: NotebookRun, *, focus: ColumnAddress | None = None, answer: Hop | None = None) -> RunPage:
    """Everything the page shows of `run`, focused on `answer`'s column, or `focus`, or one that the run wrote."""
    whole = run_states(run)
    if answer is not None:
        focus = ColumnAddress(answer.dataset, answer.version, answer.column)
    port = _default_focus(whole) if focus is None else _port(whole, focus, run.notebook)
    cells = _cells(run, whole)
    places = {cell.execution_id: place for place, cell in enumerate(run.cells)}
    links = session_links(whole.states, whole.operations)
    return RunPage(
        format=1,
        header=_header(run),
        focus=port,
        answer=column_answer(answer, port, whole, places) if answer is not None and port is not None else None,
        states=whole.states,
        operations=whole.operations,
        cells=cells,
        edges=whole.edges[-MAX_EDGES:],
        edge_total=len(whole.edges),
        lanes=_lanes(whole, cells),
        graphs=graph_views(whole.states, links, None if port is None else port.state),
    )


def _port(whole: RunStates, focus: ColumnAddress, notebook: str) -> Port:
    """The last state of that name and version which has the column."""
    for place in reversed(range(len(whole.states))):
        state = whole.states[place]
        is_named = (state.namespace, state.name) == (focus.dataset.namespace, focus.dataset.name)
        if (
            is_named
            and focus.version in {None, state.version}
            and focus.column in {None, *(c.name for c in state.columns)}
        ):
            return Port(place, focus.column)
    wanted = f"{dataset_label(focus.dataset)} · {focus.column}"
    raise UsageError(
        f"No column {wanted!r} in this run of {notebook}.", hint="`clew show` lists the columns of the run."
    )


def _default_focus(whole: RunStates) -> Port | None:
    """The last column that comes from somewhere, of the last thing written or else made."""
    known = {(edge.target.state, edge.target.column) for edge in whole.edges}
    for place in (*reversed(whole.writes), *reversed(range(len(whole.states)))):
        traced = [field.name for field in whole.states[place].columns if (place, field.name) in known]
        if traced:
            return Port(place, traced[-1])
    return None


def _header(run: NotebookRun) -> Header:
    memory = [mb for cell in run.cells for mb in (cell.start_memory_mb, cell.end_memory_mb) if mb is not None]
    return Header(
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


def _cells(run: NotebookRun, whole: RunStates) -> tuple[PageCell, ...]:
    done: defaultdict[int | None, list[PageOperation]] = defaultdict(list)
    for operation in whole.operations:
        done[operation.cell].append(operation)
    # Cells run one after another: busy time leaves out the minutes in which nobody touched the notebook.
    busy = sum(cell.duration_ms or 0 for cell in run.cells)
    cells: list[PageCell] = []
    spent = 0.0
    for place, cell in enumerate(run.cells):
        cells.append(_cell(place, cell, done[place], whole, spent / busy if busy else 0.0, busy))
        spent += cell.duration_ms or 0
    return tuple(cells)


def _cell(
    place: int, cell: CellExecution, done: Sequence[PageOperation], whole: RunStates, offset: float, busy: float
) -> PageCell:
    frames = _frames(done, whole)
    error = _error(cell)
    source = cell.source[:MAX_SOURCE]
    return PageCell(
        execution_id=cell.execution_id,
        cell_id=cell.cell_id,
        number=cell.index or place + 1,
        title=_title(cell, [whole.states[frame].label for frame in frames]),
        state=cell.state,
        source=source,
        shown_lines=_shown_lines(source, done, error),
        error=error,
        started_at=cell.started_at,
        duration_ms=cell.duration_ms,
        offset=round(offset, 4),
        share=round((cell.duration_ms or 0) / busy, 4) if busy else 0.0,
        start_memory_mb=cell.start_memory_mb,
        end_memory_mb=cell.end_memory_mb,
        frames=frames,
    )


def _frames(done: Iterable[PageOperation], whole: RunStates) -> tuple[int, ...]:
    """The frames that a cell left behind in variables, each in its last state."""
    last = {whole.states[i].name: i for op in done for i in op.outputs if whole.states[i].kind == "frame"}
    return tuple(i for i in last.values() if not is_unnamed(whole.states[i]))


def _title(cell: CellExecution, frames: Sequence[str]) -> str:
    # `_` is what marimo calls every cell that nobody named.
    if cell.name and cell.name != "_":
        return cell.name
    return ", ".join(frames) or f"cell {cell.cell_id}"


def _shown_lines(source: str, done: Sequence[PageOperation], error: PageError | None) -> tuple[int, ...]:
    """The lines that do something with data first, then the others from the top; none for a cell without data."""
    if not done and error is None:
        return ()
    lines = source.splitlines()
    written = [number for number, line in enumerate(lines, start=1) if line.strip()]
    told = [op.line for op in done if op.line] + ([error.line] if error and error.line else [])
    wanted = [number for number in dict.fromkeys([*told, *written]) if number in set(written)]
    return tuple(sorted(wanted[:MAX_LINES]))


def _error(cell: CellExecution) -> PageError | None:
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


def _lanes(whole: RunStates, cells: Sequence[PageCell]) -> LanesView:
    writes = _lane(whole.writes, MAX_CARDS)
    reads = _lane([place for place in whole.reads if place not in set(whole.writes)], MAX_CARDS)
    # The end of a long session is what it was about: its last cells are shown.
    shown = Lane(items=tuple(range(len(cells)))[-MAX_CELLS:], total=len(cells))
    boxes = lane_boxes(whole.states, cells, reads.items, shown.items, writes.items)
    width, height = extent(boxes.values())
    links = tuple(link for link in _lane_links(whole) if link.source in boxes and link.target in boxes)
    return LanesView(
        reads=reads,
        cells=shown,
        writes=writes,
        links=links,
        boxes=boxes,
        width=width,
        height=height,
        card=CARD,
        cell=CELL,
    )


def _lane(places: Sequence[int], limit: int) -> Lane:
    return Lane(items=tuple(places[:limit]), total=len(places))


def _lane_links(whole: RunStates) -> list[Link]:
    """From a file to the cell that reads it, from cell to cell, from a cell to the file it writes."""
    carried: defaultdict[tuple[str, str], dict[int, None]] = defaultdict(dict)
    for operation in whole.operations:
        cell = f"cell:{operation.cell}"
        for state in operation.inputs:
            carried[_origin(state, whole), cell][state] = None
        for state in operation.outputs:
            carried[cell, f"state:{state}"][state] = None
    return [Link(source, target, tuple(states)) for (source, target), states in carried.items() if source != target]


def _origin(state: int, whole: RunStates) -> str:
    producer = whole.states[state].producer
    return f"state:{state}" if producer is None else f"cell:{whole.operations[producer].cell}"
