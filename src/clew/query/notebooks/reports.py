"""Reports on sessions: resources, timeline, documentation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec import Struct

from clew.index.queries.reader import IndexReader
from clew.query.graph.nodes import Column
from clew.query.graph.traversal import UNLIMITED, Traversal, breadth_first
from clew.query.model import (
    CellExecution,
    DatasetName,
    DatasetState,
    NotebookOperation,
    NotebookRun,
    State,
)
from clew.query.names import full_name, short_name
from clew.query.notebooks.session import RunStates, find_session_id, get_notebook_run, track_states
from clew.query.upstream import find_origins, trace_upstream


def slowest_cell(run: NotebookRun) -> CellExecution | None:
    """Return the cell with the longest duration."""
    timed = [cell for cell in run.cells if cell.duration_ms is not None]
    return max(timed, key=lambda cell: cell.duration_ms or 0.0, default=None)


def total_ms(run: NotebookRun) -> float:
    """Return the sum of the cell durations."""
    return sum(cell.duration_ms or 0.0 for cell in run.cells)


def peak_memory_mb(run: NotebookRun) -> float | None:
    """Return the peak memory, sampled at the start and end of each cell."""
    samples = [
        memory for cell in run.cells for memory in (cell.start_memory_mb, cell.end_memory_mb) if memory is not None
    ]
    return max(samples, default=None)


_MAX_CELLS = 5


class Downstream(Struct, frozen=True):
    """Dependents of a cell or an operation within its session."""

    operations: int
    columns: int
    datasets: int


class OperationResources(Struct, frozen=True):
    """Cost of an operation, and per column that it produced."""

    cell: str | None
    line: int | None
    code: str
    duration_ms: float
    columns: int
    ms_per_column: float | None
    downstream: Downstream


class CellResources(Struct, frozen=True):
    """Cost of a cell execution, per operation and per column that it produced, and what depends on it."""

    execution_id: str
    cell: str
    state: str
    duration_ms: float | None
    memory_increase_mb: float | None
    operations: int
    columns: int
    ms_per_operation: float | None
    ms_per_column: float | None
    downstream: Downstream


class SessionResources(Struct, frozen=True):
    """Resources of a session, its slowest cells and its slowest operations."""

    session_id: str
    notebook: str
    state: State
    started_at: datetime | None
    cell_count: int
    cells_ms: float
    peak_memory_mb: float | None
    memory_increase_mb: float | None
    slowest: tuple[CellResources, ...]
    slowest_operations: tuple[OperationResources, ...]


def summarize_resources(run: NotebookRun) -> SessionResources:
    """Summarize the resources of a session."""
    timed = sorted(run.cells, key=lambda cell: cell.duration_ms or 0.0, reverse=True)
    started = [cell.start_memory_mb for cell in run.cells if cell.start_memory_mb is not None]
    peak = peak_memory_mb(run)
    states = track_states(run)
    return SessionResources(
        session_id=run.session_id,
        notebook=run.notebook,
        state=run.state,
        started_at=run.started_at,
        cell_count=len(run.cells),
        cells_ms=round(total_ms(run), 3),
        peak_memory_mb=peak,
        memory_increase_mb=None if peak is None or not started else round(peak - started[0], 3),
        slowest=tuple(_cell_resources(cell, run.cells.index(cell), states) for cell in timed[:_MAX_CELLS]),
        slowest_operations=tuple(_slowest_operations(run, states)),
    )


def _cell_resources(cell: CellExecution, position: int, states: RunStates) -> CellResources:
    before, after = cell.start_memory_mb, cell.end_memory_mb
    own = {number for number, operation in enumerate(states.operations) if operation.cell == position}
    columns = _count_columns(states, own)
    return CellResources(
        execution_id=cell.execution_id,
        cell=cell.label,
        state=cell.state,
        duration_ms=cell.duration_ms,
        memory_increase_mb=None if before is None or after is None else round(after - before, 3),
        operations=len(own),
        columns=columns,
        ms_per_operation=_per(cell.duration_ms, len(own)),
        ms_per_column=_per(cell.duration_ms, columns),
        downstream=_downstream(states, own),
    )


def _slowest_operations(run: NotebookRun, states: RunStates) -> Iterator[OperationResources]:
    timed = [(number, operation) for number, operation in enumerate(states.operations) if operation.duration_ms]
    for number, operation in sorted(timed, key=lambda item: item[1].duration_ms or 0.0, reverse=True)[:_MAX_CELLS]:
        columns = _count_columns(states, {number})
        yield OperationResources(
            cell=None if operation.cell is None else run.cells[operation.cell].label,
            line=operation.line,
            code=operation.code,
            duration_ms=operation.duration_ms or 0.0,
            columns=columns,
            ms_per_column=_per(operation.duration_ms, columns),
            downstream=_downstream(states, {number}),
        )


def _per(duration_ms: float | None, count: int) -> float | None:
    return round(duration_ms / count, 3) if duration_ms is not None and count else None


def _count_columns(states: RunStates, operations: set[int]) -> int:
    """Count the columns of the states that operations produced."""
    return sum(
        len(states.states[state].columns) for number in operations for state in states.operations[number].outputs
    )


def _downstream(states: RunStates, operations: set[int]) -> Downstream:
    """Count the operations that depend on others, and what those produced."""
    readers: dict[int, list[int]] = {}
    for number, operation in enumerate(states.operations):
        for state in operation.inputs:
            readers.setdefault(state, []).append(number)

    def expand(number: int, _: bool) -> Iterator[tuple[int, int, None]]:  # noqa: FBT001
        outputs = states.operations[number].outputs
        return ((reader, reader, None) for state in outputs for reader in readers.get(state, ()))

    starts = {number: number for number in operations}
    traversal: Traversal[int, None] = breadth_first(starts, expand, "downstream", depth=UNLIMITED, limit=UNLIMITED)
    found = traversal.distances.keys() - operations
    produced = [states.states[state] for number in found for state in states.operations[number].outputs]
    datasets = {(state.namespace, state.name) for state in produced}
    return Downstream(len(found), sum(len(state.columns) for state in produced), len(datasets))


TimelineKind = Literal["cell started", "cell ended", "operation"]
_MIN_DATETIME = datetime.min.replace(tzinfo=UTC)


class TimelineEntry(Struct, frozen=True):
    """One entry; `detail` is the code of the operation or the final state of the cell."""

    at: datetime | None
    kind: TimelineKind
    cell: str
    detail: str
    read: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()


def build_timeline(run: NotebookRun) -> list[TimelineEntry]:
    """Build the entries of a session in order: cell start, its operations, cell end."""
    return [entry for cell in run.cells for entry in _cell_entries(run, cell)]


def _cell_entries(run: NotebookRun, cell: CellExecution) -> Iterator[TimelineEntry]:
    name = cell.title
    yield TimelineEntry(cell.started_at, "cell started", name, "")
    for operation in sorted(run.operations_of(cell), key=lambda operation: operation.started_at or _MIN_DATETIME):
        yield _operation_entry(name, operation)
    if cell.state != "running":
        error = "" if cell.error is None else f": {cell.error}"
        yield TimelineEntry(_ended_at(cell), "cell ended", name, f"{cell.state}{error}")


def _operation_entry(cell: str, operation: NotebookOperation) -> TimelineEntry:
    code = " ".join(operation.code.split())
    return TimelineEntry(
        operation.started_at,
        "operation",
        cell,
        code,
        _state_names(operation.inputs),
        _state_names(operation.outputs),
    )


def _ended_at(cell: CellExecution) -> datetime | None:
    if cell.started_at is None or cell.duration_ms is None:
        return None
    return cell.started_at + timedelta(milliseconds=cell.duration_ms)


def _state_names(states: tuple[DatasetState, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(full_name(state.dataset) for state in states if not state.dataset.is_intermediate_frame))


# Column origins are listed for at most this many columns of a dataset.
_MAX_COLUMNS = 40


class DocumentedDataset(Struct, frozen=True):
    """A dataset that the notebook reads or writes; `origins` (outputs only) maps a column to its source columns."""

    name: str
    short_name: str
    row_count: int | None
    columns: tuple[tuple[str, str | None], ...]
    origins: dict[str, tuple[str, ...]]


class DocumentedCell(Struct, frozen=True):
    """A cell with its code, inputs and outputs."""

    name: str
    state: str
    code: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


class NotebookDocumentation(Struct, frozen=True):
    """Documentation of a notebook, based on one session."""

    notebook: str
    session_id: str
    state: State
    started_at: datetime | None
    reads: tuple[DocumentedDataset, ...]
    writes: tuple[DocumentedDataset, ...]
    cells: tuple[DocumentedCell, ...]


def document_notebook(index: IndexReader, name: str | None = None) -> NotebookDocumentation:
    """Document a session, or the latest session of a notebook; without a name, the latest session of all."""
    run = get_notebook_run(index, find_session_id(index, name))
    return NotebookDocumentation(
        notebook=run.notebook,
        session_id=run.session_id,
        state=run.state,
        started_at=run.started_at,
        reads=tuple(_documented_dataset(state) for state in run.reads),
        writes=tuple(_documented_dataset(state, _origins(index, state)) for state in run.writes),
        cells=tuple(_documented_cells(run)),
    )


def _documented_dataset(state: DatasetState, origins: dict[str, tuple[str, ...]] | None = None) -> DocumentedDataset:
    columns = tuple((field.name, field.type) for field in state.fields)
    return DocumentedDataset(
        full_name(state.dataset), short_name(state.dataset), state.row_count, columns, origins or {}
    )


def _origins(index: IndexReader, state: DatasetState) -> dict[str, tuple[str, ...]]:
    columns = [Column(state.dataset.namespace, state.dataset.name, field.name) for field in state.fields[:_MAX_COLUMNS]]
    return {
        column.column or "": tuple(
            dict.fromkeys(
                f"{short_name(origin.dataset)}.{origin.column or '*'}"
                for origin in find_origins(trace_upstream(index, column, is_collapsed=False))
            )
        )
        for column in columns
    }


def _documented_cells(run: NotebookRun) -> list[DocumentedCell]:
    cells = []
    for cell in run.cells:
        operations = run.operations_of(cell)
        outputs = _dataset_names([state.dataset for operation in operations for state in operation.outputs])
        inputs = [
            name
            for name in _dataset_names([state.dataset for operation in operations for state in operation.inputs])
            if name not in outputs
        ]
        cells.append(DocumentedCell(cell.title, cell.state, cell.source, tuple(inputs), tuple(outputs)))
    return cells


def _dataset_names(datasets: list[DatasetName]) -> list[str]:
    return list(dict.fromkeys(short_name(dataset) for dataset in datasets if not dataset.is_intermediate_frame))
