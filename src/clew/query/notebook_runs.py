"""One session of a notebook, put together from what the index knows of it."""

from __future__ import annotations

from collections import defaultdict

import msgspec
from msgspec import Struct

from clew.events.notebook import FRAMES
from clew.index.reader import IndexReader, Row
from clew.query.model import (
    CellError,
    CellExecution,
    ColumnEdge,
    Dataset,
    DatasetState,
    Field,
    NotebookRun,
    Operation,
    RunSummary,
    State,
)
from clew.query.moments import moment
from clew.query.names import UnknownNameError
from clew.query.schemas import schema_fields

_MOST_SESSIONS = 1000
_UNNAMED = "notebook"


class _Io(Struct):
    """A dataset as a run read or wrote it."""

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


def summaries(index: IndexReader, limit: int = _MOST_SESSIONS) -> list[RunSummary]:
    """Notebook sessions, the newest first."""
    return [_summary(row) for row in index.sessions(limit)]


def latest_session(index: IndexReader) -> str | None:
    """The session that started last."""
    found = index.sessions(1)
    return found[0]["session_id"] if found else None


def notebook_run(index: IndexReader, session_id: str) -> NotebookRun:
    """All that is known of one session."""
    run = find_run(index, session_id)
    if run is None:
        known = [row["session_id"] for row in index.sessions(_MOST_SESSIONS)]
        raise UnknownNameError.of("notebook session", session_id, known)
    return run


def find_run(index: IndexReader, session_id: str) -> NotebookRun | None:
    """All that is known of one session; None where no cell of it was seen."""
    rows = index.cells(session_id)
    if not rows:
        return None
    cells = tuple(map(_cell, rows))
    run = index.session_run(session_id)
    io = [_Io(row["run_uuid"], row["direction"], _state(index, row)) for row in index.session_io(session_id)]
    return NotebookRun(
        session_id=session_id,
        run_uuid=None if run is None else run["run_uuid"],
        notebook=next((row["notebook"] for row in rows if row["notebook"]), _UNNAMED),
        state=_session_state(run, has_failed=any(cell.state == "failed" for cell in cells)),
        started_at=min((cell.started_at for cell in cells if cell.started_at), default=None),
        ended_at=None if run is None else moment(run["ended_at"]),
        cells=cells,
        operations=_operations(index.operations(session_id), io),
        reads=_outside(io, "INPUT"),
        writes=_outside(io, "OUTPUT"),
        edges=tuple(map(edge_of, index.session_edges(session_id))),
    )


def edge_of(row: Row) -> ColumnEdge:
    """A stored edge as a value."""
    flag = row["description"] if row["description"] in {"opaque", "inferred"} else None
    return ColumnEdge(
        dataset=Dataset(row["dataset_namespace"], row["dataset_name"]),
        version=row["dataset_version"] or None,
        column=row["column"],
        source=Dataset(row["source_namespace"], row["source_name"]),
        source_version=row["source_version"] or None,
        source_column=row["source_column"],
        type="INDIRECT" if row["type"] == "INDIRECT" else "DIRECT",
        subtype=row["subtype"],
        flag=flag,
        run_uuid=row["run_uuid"],
        job_name=row["job_name"] or "",
    )


def _summary(row: Row) -> RunSummary:
    return RunSummary(
        session_id=row["session_id"],
        notebook=row["notebook"] or _UNNAMED,
        state=row["state"] or _session_state(None, has_failed=row["failed_cell_count"] > 0),
        started_at=moment(row["started_at"]),
        ended_at=moment(row["ended_at"]),
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
        started_at=moment(row["started_at"]),
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


def _operations(rows: list[Row], io: list[_Io]) -> tuple[Operation, ...]:
    of_run: defaultdict[str | None, list[_Io]] = defaultdict(list)
    for one in io:
        of_run[one.run_uuid].append(one)
    return tuple(_operation(row, of_run[row["run_uuid"]]) for row in rows)


def _operation(row: Row, io: list[_Io]) -> Operation:
    return Operation(
        run_uuid=row["run_uuid"] or row["operation_id"],
        job_name=row["job_name"] or "",
        execution_id=row["execution_id"] or "",
        cell_id=row["cell_id"] or "",
        method=row["operation_method"] or "",
        kind=row["operation_type"] or "unknown",
        code=row["operation_code"] or "",
        line=row["line"],
        started_at=moment(row["started_at"] or row["event_time"]),
        duration_ms=row["duration_ms"],
        state=row["state"] or "NEW",
        inputs=_states(io, "INPUT", row["inputs"]),
        outputs=_states(io, "OUTPUT", row["outputs"]),
    )


def _states(io: list[_Io], direction: str, seen: str) -> tuple[DatasetState, ...]:
    frames = _decode_frames(seen)
    return tuple(_as_seen(one.state, frames) for one in io if one.direction == direction)


def _as_seen(state: DatasetState, frames: list[_Frame]) -> DatasetState:
    """A frame's rows and columns as the operation saw them: facets of a later run may have replaced its own."""
    name = state.dataset.name.rsplit("/", 1)[-1]
    seen = next((f for f in frames if f.version == state.version and f.variable_name == name), None)
    if seen is None:
        return state
    types = {field.name: field.type for field in state.fields}
    fields = tuple(Field(column, types.get(column)) for column in seen.columns or ()) or state.fields
    return DatasetState(
        state.dataset, state.version, fields, seen.row_count if seen.row_count is not None else state.row_count
    )


def _state(index: IndexReader, row: Row) -> DatasetState:
    dataset, version = Dataset(row["dataset_namespace"], row["dataset_name"]), row["dataset_version"] or None
    return DatasetState(
        dataset, version, schema_fields(index, dataset, version), _row_count(index, dataset, version, row["run_uuid"])
    )


def _row_count(index: IndexReader, dataset: Dataset, version: str | None, run_uuid: str) -> int | None:
    key = dataset.namespace, dataset.name, version
    candidates = (
        index.run_dataset_facet("OUTPUT", *key, run_uuid, "outputStatistics"),
        index.run_dataset_facet("INPUT", *key, run_uuid, "inputStatistics"),
        index.run_dataset_facet("INPUT", *key, run_uuid, "dataQualityMetrics"),
        index.dataset_facet(*key, "dataQualityMetrics"),
    )
    counts = (_counted(facet) for facet in candidates if facet is not None)
    return next((count for count in counts if count is not None), None)


def _counted(facet: bytes) -> int | None:
    try:
        return _decode_statistics(facet).row_count
    except msgspec.DecodeError:
        return None


def _outside(io: list[_Io], direction: str) -> tuple[DatasetState, ...]:
    """What a notebook reads from or writes to the world: everything but its own frames."""
    states = [one.state for one in io if one.direction == direction and one.state.dataset.namespace != FRAMES]
    return tuple({state.dataset: state for state in states}.values())
