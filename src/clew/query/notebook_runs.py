"""Load notebook sessions from the index."""

from __future__ import annotations

from collections import defaultdict

import msgspec
from msgspec import Struct

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.reader import IndexReader, Row
from clew.query.model import (
    CellError,
    CellExecution,
    ColumnLineageEdge,
    DatasetName,
    DatasetState,
    Field,
    NotebookOperation,
    NotebookRun,
    SessionSummary,
    State,
)
from clew.query.moments import from_epoch_micros
from clew.query.names import UnknownNameError
from clew.query.schemas import schema_fields

_MAX_SESSIONS = 1000
_DEFAULT_NOTEBOOK = "notebook"


class _RunIo(Struct):
    """An input or output of a run."""

    run_uuid: str
    direction: str
    state: DatasetState


class _Frame(Struct):
    variable_name: str | None = None
    version: str | None = None
    row_count: int | None = None
    columns: list[str] | None = None


class _Statistics(Struct, rename="camel"):
    row_count: int | None = None


_decode_statistics = msgspec.json.Decoder(_Statistics, strict=False).decode
_decode_frames = msgspec.json.Decoder(list[_Frame]).decode


def list_sessions(index: IndexReader, limit: int = _MAX_SESSIONS) -> list[SessionSummary]:
    """List notebook sessions, newest first."""
    return [_summary(row) for row in index.sessions(limit)]


def latest_session_id(index: IndexReader) -> str | None:
    """Return the id of the session that started last."""
    sessions = index.sessions(1)
    return sessions[0]["session_id"] if sessions else None


def get_notebook_run(index: IndexReader, session_id: str) -> NotebookRun:
    """Load a session; raise if it does not exist."""
    run = find_notebook_run(index, session_id)
    if run is None:
        session_ids = [row["session_id"] for row in index.sessions(_MAX_SESSIONS)]
        raise UnknownNameError.of("notebook session", session_id, session_ids)
    return run


def find_notebook_run(index: IndexReader, session_id: str) -> NotebookRun | None:
    """Load a session, or return None if the index has none of its cells."""
    rows = index.cells(session_id)
    if not rows:
        return None
    cells = tuple(map(_cell, rows))
    run = index.session_run(session_id)
    io = [_RunIo(row["run_uuid"], row["direction"], _dataset_state(index, row)) for row in index.session_io(session_id)]
    return NotebookRun(
        session_id=session_id,
        run_uuid=None if run is None else run["run_uuid"],
        notebook=next((row["notebook"] for row in rows if row["notebook"]), _DEFAULT_NOTEBOOK),
        state=_session_state(run, has_failed=any(cell.state == "failed" for cell in cells)),
        started_at=min((cell.started_at for cell in cells if cell.started_at), default=None),
        ended_at=None if run is None else from_epoch_micros(run["ended_at"]),
        cells=cells,
        operations=_operations(index.operations(session_id), io),
        reads=_external_states(io, "INPUT"),
        writes=_external_states(io, "OUTPUT"),
        edges=tuple(map(column_edge_from_row, index.session_edges(session_id))),
    )


def column_edge_from_row(row: Row) -> ColumnLineageEdge:
    """Convert an edge row."""
    flag = row["description"] if row["description"] in {"opaque", "inferred"} else None
    return ColumnLineageEdge(
        dataset=DatasetName(row["dataset_namespace"], row["dataset_name"]),
        version=row["dataset_version"] or None,
        column=row["column"],
        source=DatasetName(row["source_namespace"], row["source_name"]),
        source_version=row["source_version"] or None,
        source_column=row["source_column"],
        type="INDIRECT" if row["type"] == "INDIRECT" else "DIRECT",
        subtype=row["subtype"],
        flag=flag,
        run_uuid=row["run_uuid"],
        job_name=row["job_name"] or "",
    )


def _summary(row: Row) -> SessionSummary:
    return SessionSummary(
        session_id=row["session_id"],
        notebook=row["notebook"] or _DEFAULT_NOTEBOOK,
        state=row["state"] or _session_state(None, has_failed=row["failed_cell_count"] > 0),
        started_at=from_epoch_micros(row["started_at"]),
        ended_at=from_epoch_micros(row["ended_at"]),
        cell_count=row["cell_count"],
        failed_cell_count=row["failed_cell_count"],
    )


def _cell(row: Row) -> CellExecution:
    return CellExecution(
        execution_id=row["execution_id"],
        cell_id=row["cell_id"] or "",
        name=row["cell_name"],
        index=row["cell_index"],
        source=row["cell_source"] or "",
        state=row["state"],
        started_at=from_epoch_micros(row["started_at"]),
        duration_ms=row["duration_ms"],
        start_memory_mb=row["start_memory_mb"],
        end_memory_mb=row["end_memory_mb"],
        error=_error(row),
    )


def _error(row: Row) -> CellError | None:
    if row["error_type"] is None and row["error_message"] is None:
        return None
    return CellError(row["error_type"] or "Error", row["error_message"] or "", row["traceback"] or "")


def _session_state(run: Row | None, *, has_failed: bool) -> State:
    if run is not None:
        state: State = run["state"]
        return state
    return "FAILED" if has_failed else "RUNNING"


def _operations(rows: list[Row], io: list[_RunIo]) -> tuple[NotebookOperation, ...]:
    io_by_run: defaultdict[str | None, list[_RunIo]] = defaultdict(list)
    for run_io in io:
        io_by_run[run_io.run_uuid].append(run_io)
    return tuple(_operation(row, io_by_run[row["run_uuid"]]) for row in rows)


def _operation(row: Row, io: list[_RunIo]) -> NotebookOperation:
    return NotebookOperation(
        run_uuid=row["run_uuid"] or row["operation_id"],
        job_name=row["job_name"] or "",
        execution_id=row["execution_id"] or "",
        cell_id=row["cell_id"] or "",
        method=row["operation_method"] or "",
        kind=row["operation_type"] or "unknown",
        code=row["operation_code"] or "",
        line=row["line"],
        started_at=from_epoch_micros(row["started_at"] or row["event_time"]),
        duration_ms=row["duration_ms"],
        state=row["state"] or "NEW",
        inputs=_dataset_states(io, "INPUT", row["inputs"]),
        outputs=_dataset_states(io, "OUTPUT", row["outputs"]),
    )


def _dataset_states(io: list[_RunIo], direction: str, observed: str) -> tuple[DatasetState, ...]:
    frames = _decode_frames(observed)
    return tuple(_as_observed(run_io.state, frames) for run_io in io if run_io.direction == direction)


def _as_observed(state: DatasetState, frames: list[_Frame]) -> DatasetState:
    """Use the rows and columns that the operation recorded; facets of a later run may have replaced them."""
    name = state.dataset.name.rsplit("/", 1)[-1]
    observed = next((f for f in frames if f.version == state.version and f.variable_name == name), None)
    if observed is None:
        return state
    types = {field.name: field.type for field in state.fields}
    fields = tuple(Field(column, types.get(column)) for column in observed.columns or ()) or state.fields
    return DatasetState(
        state.dataset, state.version, fields, observed.row_count if observed.row_count is not None else state.row_count
    )


def _dataset_state(index: IndexReader, row: Row) -> DatasetState:
    dataset, version = DatasetName(row["dataset_namespace"], row["dataset_name"]), row["dataset_version"] or None
    return DatasetState(
        dataset, version, schema_fields(index, dataset, version), _row_count(index, dataset, version, row["run_uuid"])
    )


def _row_count(index: IndexReader, dataset: DatasetName, version: str | None, run_uuid: str) -> int | None:
    key = dataset.namespace, dataset.name, version
    candidates = (
        index.run_dataset_facet("OUTPUT", *key, run_uuid, "outputStatistics"),
        index.run_dataset_facet("INPUT", *key, run_uuid, "inputStatistics"),
        index.run_dataset_facet("INPUT", *key, run_uuid, "dataQualityMetrics"),
        index.dataset_facet(*key, "dataQualityMetrics"),
    )
    counts = (_parse_row_count(facet) for facet in candidates if facet is not None)
    return next((count for count in counts if count is not None), None)


def _parse_row_count(facet: bytes) -> int | None:
    try:
        return _decode_statistics(facet).row_count
    except msgspec.DecodeError:
        return None


def _external_states(io: list[_RunIo], direction: str) -> tuple[DatasetState, ...]:
    """Return the inputs or outputs outside the notebook: all datasets except in-memory frames."""
    states = [
        run_io.state
        for run_io in io
        if run_io.direction == direction and run_io.state.dataset.namespace != NOTEBOOK_NAMESPACE
    ]
    return tuple({state.dataset: state for state in states}.values())
