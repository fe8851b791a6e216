"""Notebook sessions, and dataset states between operations."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, structs

from clew.events.facets import decode_facet, get_str, parse_row_count
from clew.events.notebook import NOTEBOOK_NAMESPACE, split_cell_name
from clew.index.backends.base import Row
from clew.index.queries.reader import IndexReader
from clew.query.model import (
    CellError,
    CellExecution,
    ColumnLineageEdge,
    DatasetName,
    DatasetState,
    Field,
    LostLineage,
    NotebookOperation,
    NotebookRun,
    SessionSummary,
    State,
    from_epoch_micros,
    to_edge_type,
)
from clew.query.names import EmptyIndexError, UnknownNameError, schema_fields
from clew.query.pages.run_page_model import Flag, PageEdge, PageOperation, PageState, Port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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


_decode_frames = msgspec.json.Decoder(list[_Frame]).decode


def list_sessions(index: IndexReader, limit: int = _MAX_SESSIONS) -> list[SessionSummary]:
    """List notebook sessions, newest first."""
    return [_summary(row) for row in index.sessions(limit)]


def find_session_id(index: IndexReader, name: str | None = None) -> str:
    """Return the id of a session, or of the latest session of a notebook; without a name, of the latest of all.

    The last parts of a notebook's name are sufficient.
    """
    sessions = list_sessions(index)
    for run in sessions:
        suffixes = (f"/{run.notebook}", f"/{run.notebook.removesuffix('.py').removesuffix('.ipynb')}")
        if name is None or name == run.session_id or any(full.endswith(f"/{name}") for full in suffixes):
            return run.session_id
    if name is None:
        raise EmptyIndexError.no_notebook_runs()
    names = [*dict.fromkeys(run.notebook for run in sessions), *(run.session_id for run in sessions)]
    raise UnknownNameError.of("notebook or session", name, names)


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
        losses=() if run is None else _losses(index, run["run_uuid"]),
    )


def _losses(index: IndexReader, run_uuid: str) -> tuple[LostLineage, ...]:
    """Return what capture could not follow, as the session reported at its end."""
    facet = index.facets_of([("run", run_uuid)]).get(("run", run_uuid), {}).get("extractionError")
    errors = decode_facet(bytes(facet)).get("errors") if facet is not None else None
    return tuple(
        LostLineage(get_str(error, "errorMessage") or "", get_str(error, "task") or "")
        for error in (errors if isinstance(errors, list) else ())
    )


def column_edge_from_row(row: Row) -> ColumnLineageEdge:
    """Convert an edge row."""
    return ColumnLineageEdge(
        dataset=DatasetName(row["dataset_namespace"], row["dataset_name"]),
        version=row["dataset_version"] or None,
        column=row["column"],
        source=DatasetName(row["source_namespace"], row["source_name"]),
        source_version=row["source_version"] or None,
        source_column=row["source_column"],
        type=to_edge_type(row["type"]),
        subtype=row["subtype"],
        flag=lineage_flag(row["description"]),
        run_uuid=row["run_uuid"],
        job_name=row["job_name"] or "",
    )


def lineage_flag(description: str | None) -> Flag | None:
    """Return the flag that the capture stores as the description of an edge that is not exact."""
    return description if description in ("opaque", "inferred") else None  # type: ignore[return-value]


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
    name = state.dataset.name
    observed = next((f for f in frames if f.version == state.version and name.endswith(f"/{f.variable_name}")), None)
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
    counts = (parse_row_count(facet) for facet in candidates if facet is not None)
    return next((count for count in counts if count is not None), None)


def _external_states(io: list[_RunIo], direction: str) -> tuple[DatasetState, ...]:
    """Return the inputs or outputs outside the notebook: all datasets except in-memory frames."""
    states = [
        run_io.state
        for run_io in io
        if run_io.direction == direction and run_io.state.dataset.namespace != NOTEBOOK_NAMESPACE
    ]
    return tuple({state.dataset: state for state in states}.values())


def split_script(run: NotebookRun) -> NotebookRun:
    """Split the one execution of a script into its top-level statements; those without operations are joined.

    The parts have the execution id of the script with the number of their first line.
    """
    blocks = _statement_blocks(run) if len(run.cells) == 1 else []
    if len(blocks) < 2:
        return run
    script, lines = run.cells[0], run.cells[0].source.splitlines()
    failed_line = None if script.error is None else find_error_line(script.error.traceback, len(lines))
    # What follows the statement that failed did not run.
    blocks = [block for block in blocks if failed_line is None or block[0] <= failed_line]
    cells, operations = [], []
    for number, (first, last) in enumerate(blocks, start=1):
        part = [operation for operation in run.operations if first <= (operation.line or 1) <= last]
        is_last = number == len(blocks)
        cell = structs.replace(
            script,
            execution_id=f"{script.execution_id}:{first}",
            name=None,
            index=number,
            source="\n".join(lines[first - 1 : last]),
            state=script.state if is_last else "completed",
            error=script.error if is_last else None,
            started_at=min((op.started_at for op in part if op.started_at), default=script.started_at),
            duration_ms=sum(op.duration_ms or 0.0 for op in part),
        )
        cells.append(cell)
        operations += [
            structs.replace(op, execution_id=cell.execution_id, line=op.line and op.line - first + 1) for op in part
        ]
    return structs.replace(run, cells=tuple(cells), operations=tuple(operations))


def find_error_line(traceback: str, line_count: int, first_line: int = 1) -> int | None:
    """Return the last line number of a traceback that is in a cell, relative to its first line in the file."""
    numbers = [int(number) - first_line + 1 for number in re.findall(r"\bline (\d{1,6})\b", traceback)]
    return next((number for number in reversed(numbers) if 1 <= number <= line_count), None)


def _statement_blocks(run: NotebookRun) -> list[tuple[int, int]]:
    """Return the first and last lines of the parts of a script; none for a notebook."""
    script = run.cells[0]
    if script.name is None or script.name != PurePosixPath(run.notebook).stem or run.notebook.endswith(".ipynb"):
        return []
    try:
        statements = ast.parse(script.source).body
    except (SyntaxError, ValueError):
        return []
    operation_lines = {operation.line for operation in run.operations}
    blocks: list[tuple[int, int]] = []
    has_operations = False
    for statement in statements:
        first, last = _first_line(statement), statement.end_lineno or statement.lineno
        is_traced = not operation_lines.isdisjoint(range(first, last + 1))
        # Comments and blank lines belong to the statement below them.
        start = blocks[-1][1] + 1 if blocks else 1
        if blocks and not is_traced and not has_operations:
            blocks[-1] = (blocks[-1][0], last)
        else:
            blocks.append((start, last))
        has_operations = is_traced
    return blocks


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


class RunStates(Struct, frozen=True):
    """Dataset states, operations and column edges of a run, referenced by position."""

    states: tuple[PageState, ...]
    operations: tuple[PageOperation, ...]
    edges: tuple[PageEdge, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]


def track_states(run: NotebookRun) -> RunStates:
    """Track a run operation by operation; each dataset state gets a position."""
    tracker = _StateTracker()
    edges_of = _edges_by_operation(run)
    cell_of = {cell.execution_id: position for position, cell in enumerate(run.cells)}
    operations: list[PageOperation] = []
    edges: list[PageEdge] = []
    for position, operation in enumerate(_in_run_order(run, cell_of)):
        sources = edges_of.pop(operation.run_uuid, ())
        inputs = tracker.inputs(operation, sources)
        outputs = tracker.outputs(operation, sources, position)
        operations.append(_page_operation(operation, cell_of, inputs, outputs))
        edges += [_page_edge(edge, inputs, outputs, position) for edge in sources]
    for edge in (edge for rest in edges_of.values() for edge in rest):
        edges.append(
            _page_edge(
                edge,
                tracker.positions_of([(edge.source, edge.source_version)]),
                tracker.positions_of([(edge.dataset, edge.version)]),
                None,
            )
        )
    reads = tuple(dict.fromkeys(tracker.initial_state(state) for state in run.reads))
    writes = tuple(dict.fromkeys(tracker.final_state(state) for state in run.writes))
    tracker.add_columns(edges)
    return RunStates(
        states=tuple(tracker.states),
        operations=tuple(operations),
        edges=tuple(dict.fromkeys(edges)),
        reads=reads,
        writes=writes,
    )


def _in_run_order(run: NotebookRun, cell_of: Mapping[str, int]) -> list[NotebookOperation]:
    """Sort operations by cell; event times are not reliable for ordering across cells."""
    return sorted(run.operations, key=lambda operation: cell_of.get(operation.execution_id, len(cell_of)))


_Key = tuple[DatasetName, str | None]


class _StateTracker:
    """All states so far, and the current state of each dataset."""

    def __init__(self) -> None:
        self.states: list[PageState] = []
        self._current_positions: dict[_Key, int] = {}
        self._last_positions: dict[DatasetName, int] = {}

    def inputs(self, operation: NotebookOperation, edges: Iterable[ColumnLineageEdge]) -> dict[_Key, int]:
        positions = {(s.dataset, s.version): self._current((s.dataset, s.version), s) for s in operation.inputs}
        return positions | self.positions_of(
            (edge.source, edge.source_version) for edge in edges if (edge.source, edge.source_version) not in positions
        )

    def positions_of(self, keys: Iterable[_Key]) -> dict[_Key, int]:
        return {key: self._current(key) for key in keys}

    def outputs(
        self, operation: NotebookOperation, edges: Iterable[ColumnLineageEdge], producer: int
    ) -> dict[_Key, int]:
        states: dict[_Key, DatasetState] = {(s.dataset, s.version): s for s in operation.outputs}
        for edge in edges:
            states.setdefault((edge.dataset, edge.version), DatasetState(edge.dataset, edge.version, (), None))
        return {key: self._add(state, producer) for key, state in states.items()}

    def initial_state(self, state: DatasetState) -> int:
        """Return the state of a dataset before the run."""
        for position, existing in enumerate(self.states):
            if (existing.namespace, existing.name, existing.producer) == (
                state.dataset.namespace,
                state.dataset.name,
                None,
            ):
                self._add_details(position, state)
                return position
        return self._current((state.dataset, state.version), state)

    def final_state(self, state: DatasetState) -> int:
        """Return the state of a dataset after the run."""
        position = self._last_positions.get(state.dataset)
        if position is None:
            return self._add(state, None)
        self._add_details(position, state)
        return position

    def add_columns(self, edges: Iterable[PageEdge]) -> None:
        """Add columns that only occur in edges, so that every edge ends at a column."""
        columns_by_state: defaultdict[int, dict[str, None]] = defaultdict(dict)
        for port in (port for edge in edges for port in (edge.source, edge.target)):
            if port.column is not None:
                columns_by_state[port.state][port.column] = None
        for position, columns in columns_by_state.items():
            state = self.states[position]
            existing = {field.name for field in state.columns}
            extra = tuple(Field(name=column) for column in columns if column not in existing)
            self.states[position] = structs.replace(state, columns=state.columns + extra)

    def _current(self, key: _Key, details: DatasetState | None = None) -> int:
        position = self._current_positions.get(key)
        if position is None and key[1] is None:
            position = self._last_positions.get(key[0])
        if position is None:
            return self._add(details or DatasetState(key[0], key[1], (), None), None)
        if details is not None:
            self._add_details(position, details)
        return position

    def _add(self, state: DatasetState, producer: int | None) -> int:
        position = len(self.states)
        self.states.append(_page_state(state, producer))
        self._current_positions[state.dataset, state.version] = position
        self._last_positions[state.dataset] = position
        return position

    def _add_details(self, position: int, state: DatasetState) -> None:
        """Fill in fields that were missing when the state was added."""
        existing = self.states[position]
        rows = existing.row_count if existing.row_count is not None else state.row_count
        self.states[position] = structs.replace(existing, columns=existing.columns or state.fields, row_count=rows)


def _edges_by_operation(run: NotebookRun) -> dict[str | None, tuple[ColumnLineageEdge, ...]]:
    by_job = {operation.job_name: operation.run_uuid for operation in run.operations}
    groups: defaultdict[str | None, list[ColumnLineageEdge]] = defaultdict(list)
    for edge in run.edges:
        groups[edge.run_uuid or by_job.get(edge.job_name)].append(edge)
    return {run_uuid: tuple(edges) for run_uuid, edges in groups.items()}


def _page_operation(
    operation: NotebookOperation, cell_of: Mapping[str, int], inputs: Mapping[_Key, int], outputs: Mapping[_Key, int]
) -> PageOperation:
    return PageOperation(
        cell=cell_of.get(operation.execution_id),
        method=operation.method,
        kind=operation.kind,
        code=operation.code,
        line=operation.line,
        started_at=operation.started_at,
        duration_ms=operation.duration_ms,
        state=operation.state,
        inputs=tuple(dict.fromkeys(inputs.values())),
        outputs=tuple(outputs.values()),
    )


def _page_edge(
    edge: ColumnLineageEdge, inputs: Mapping[_Key, int], outputs: Mapping[_Key, int], operation: int | None
) -> PageEdge:
    return PageEdge(
        source=Port(inputs[edge.source, edge.source_version], edge.source_column),
        target=Port(outputs[edge.dataset, edge.version], edge.column),
        type=edge.type,
        subtype=edge.subtype,
        flag=edge.flag,
        operation=operation,
    )


def _page_state(state: DatasetState, producer: int | None) -> PageState:
    return PageState(
        namespace=state.dataset.namespace,
        name=state.dataset.name,
        label=display_name(state.dataset),
        kind="frame" if state.dataset.namespace == NOTEBOOK_NAMESPACE else "file",
        version=state.version,
        row_count=state.row_count,
        columns=state.fields,
        producer=producer,
    )


def display_name(dataset: DatasetName) -> str:
    """Return a short display name: the variable of a frame, or the last path component."""
    if dataset.namespace != NOTEBOOK_NAMESPACE:
        return PurePosixPath(dataset.name).name or dataset.name
    parts = split_cell_name(dataset.name)
    if parts is None:
        return PurePosixPath(dataset.name).name
    return f"{parts[1]}: {parts[2].removeprefix('dataframe_').removeprefix('pandas_')}"
