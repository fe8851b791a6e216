"""Documentation of a notebook: inputs, outputs with column origins, and code cell by cell."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.index.reader import IndexReader
from clew.query.folding import is_intermediate_frame
from clew.query.model import DatasetName, DatasetState, LineageStep, NotebookRun, State
from clew.query.names import EmptyIndexError, UnknownNameError, full_name, short_name
from clew.query.notebook_runs import get_notebook_run, list_sessions
from clew.query.steps import is_indirect
from clew.query.upstream import trace_upstream

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
    run = get_notebook_run(index, _find_session(index, name))
    return NotebookDocumentation(
        notebook=run.notebook,
        session_id=run.session_id,
        state=run.state,
        started_at=run.started_at,
        reads=tuple(_documented_dataset(state) for state in run.reads),
        writes=tuple(_documented_dataset(state, _origins(index, state)) for state in run.writes),
        cells=tuple(_documented_cells(run)),
    )


def _find_session(index: IndexReader, name: str | None) -> str:
    sessions = list_sessions(index)
    for run in sessions:
        if name is None or name in {run.session_id, run.notebook, run.notebook.removesuffix(".py")}:
            return run.session_id
    if name is None:
        raise EmptyIndexError.no_notebook_runs()
    names = [*dict.fromkeys(run.notebook for run in sessions), *(run.session_id for run in sessions)]
    raise UnknownNameError.of("notebook or session", name, names)


def _documented_dataset(state: DatasetState, origins: dict[str, tuple[str, ...]] | None = None) -> DocumentedDataset:
    columns = tuple((field.name, field.type) for field in state.fields)
    return DocumentedDataset(
        full_name(state.dataset), short_name(state.dataset), state.row_count, columns, origins or {}
    )


def _origins(index: IndexReader, state: DatasetState) -> dict[str, tuple[str, ...]]:
    columns = [field.name for field in state.fields[:_MAX_COLUMNS]]
    return {
        column: tuple(dict.fromkeys(_origin_names(trace_upstream(index, state.dataset, column)))) for column in columns
    }


def _origin_names(step: LineageStep) -> list[str]:
    direct = [source for source in step.upstream if not is_indirect(source)]
    if not direct and step.edge is not None and not step.is_repeated:
        return [f"{short_name(step.dataset)}.{step.column or '*'}"]
    return [end for source in direct for end in _origin_names(source)]


def _documented_cells(run: NotebookRun) -> list[DocumentedCell]:
    cells = []
    for cell in run.cells:
        operations = [operation for operation in run.operations if operation.execution_id == cell.execution_id]
        outputs = _dataset_names([state.dataset for operation in operations for state in operation.outputs])
        inputs = [
            name
            for name in _dataset_names([state.dataset for operation in operations for state in operation.inputs])
            if name not in outputs
        ]
        cells.append(DocumentedCell(cell.name or cell.cell_id, cell.state, cell.source, tuple(inputs), tuple(outputs)))
    return cells


def _dataset_names(datasets: list[DatasetName]) -> list[str]:
    return list(dict.fromkeys(short_name(dataset) for dataset in datasets if not is_intermediate_frame(dataset)))
