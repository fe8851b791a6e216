"""A notebook as a pipeline: what it reads, what it does cell by cell, what it writes, and where that comes from."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.index.reader import IndexReader
from clew.query.folding import is_unnamed
from clew.query.model import Dataset, DatasetState, Hop, NotebookRun, State
from clew.query.names import NothingRecordedError, UnknownNameError, full_name, short_name
from clew.query.notebook_runs import notebook_run, summaries
from clew.query.steps import is_influence
from clew.query.upstream import upstream

# Of a wide table, the sources of so many columns are told.
_MOST_COLUMNS = 40


class DocumentedDataset(Struct, frozen=True):
    """A dataset that the pipeline reads or writes; of what it writes, the origins of each column."""

    name: str
    short_name: str
    row_count: int | None
    columns: tuple[tuple[str, str | None], ...]
    origins: dict[str, tuple[str, ...]]


class DocumentedCell(Struct, frozen=True):
    """A cell with its code, what it took and what it left."""

    name: str
    state: str
    code: str
    took: tuple[str, ...]
    left: tuple[str, ...]


class Documentation(Struct, frozen=True):
    """A pipeline as its last run, or the one that was asked for, shows it."""

    notebook: str
    session_id: str
    state: State
    started_at: datetime | None
    reads: tuple[DocumentedDataset, ...]
    writes: tuple[DocumentedDataset, ...]
    cells: tuple[DocumentedCell, ...]


def documentation(index: IndexReader, name: str | None = None) -> Documentation:
    """The pipeline of a session, or of a notebook's last session; without a name, of the last session of all."""
    run = notebook_run(index, _session(index, name))
    return Documentation(
        notebook=run.notebook,
        session_id=run.session_id,
        state=run.state,
        started_at=run.started_at,
        reads=tuple(_dataset(state) for state in run.reads),
        writes=tuple(_dataset(state, _origins(index, state)) for state in run.writes),
        cells=tuple(_cells(run)),
    )


def _session(index: IndexReader, name: str | None) -> str:
    known = summaries(index)
    for run in known:
        if name is None or name in {run.session_id, run.notebook, run.notebook.removesuffix(".py")}:
            return run.session_id
    if name is None:
        raise NothingRecordedError.yet()
    names = [*dict.fromkeys(run.notebook for run in known), *(run.session_id for run in known)]
    raise UnknownNameError.of("notebook or session", name, names)


def _dataset(state: DatasetState, origins: dict[str, tuple[str, ...]] | None = None) -> DocumentedDataset:
    columns = tuple((field.name, field.type) for field in state.fields)
    return DocumentedDataset(
        full_name(state.dataset), short_name(state.dataset), state.row_count, columns, origins or {}
    )


def _origins(index: IndexReader, state: DatasetState) -> dict[str, tuple[str, ...]]:
    columns = [field.name for field in state.fields[:_MOST_COLUMNS]]
    return {column: tuple(dict.fromkeys(_ends(upstream(index, state.dataset, column)))) for column in columns}


def _ends(hop: Hop) -> list[str]:
    direct = [source for source in hop.upstream if not is_influence(source)]
    if not direct and hop.edge is not None and not hop.is_repeated:
        return [f"{short_name(hop.dataset)}.{hop.column or '*'}"]
    return [end for source in direct for end in _ends(source)]


def _cells(run: NotebookRun) -> list[DocumentedCell]:
    cells = []
    for cell in run.cells:
        own = [operation for operation in run.operations if operation.execution_id == cell.execution_id]
        left = _named([state.dataset for operation in own for state in operation.outputs])
        took = [name for name in _named([state.dataset for one in own for state in one.inputs]) if name not in left]
        cells.append(DocumentedCell(cell.name or cell.cell_id, cell.state, cell.source, tuple(took), tuple(left)))
    return cells


def _named(datasets: list[Dataset]) -> list[str]:
    return list(dict.fromkeys(short_name(dataset) for dataset in datasets if not is_unnamed(dataset)))
