"""Track the states of datasets over the operations of a run.

A version alone does not identify a state: a cell that is executed again restarts the versions of its variables at 1,
and a file has no version. The version together with the order of the operations does.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.query.model import ColumnLineageEdge, DatasetName, DatasetState, Field, NotebookOperation, NotebookRun
from clew.query.run_page_model import PageEdge, PageOperation, PageState, Port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


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
    _, _, name = dataset.name.partition("/")
    cell, slash, operation = name.partition("/")
    if not slash:
        return name or dataset.name
    return f"{cell}: {operation.removeprefix('dataframe_').removeprefix('pandas_')}"
