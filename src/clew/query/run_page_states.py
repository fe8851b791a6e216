"""Which state of a dataset an operation read: its version, as the last operation before it left it.

A version alone does not say: a cell that is executed again counts its variables' versions from 1 again, and a file has
no version at all. Taken together with the order of the operations it does.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from clew.events.notebook import FRAMES
from clew.query.model import ColumnEdge, Dataset, DatasetState, Field, NotebookRun, Operation
from clew.query.run_page_model import PageEdge, PageOperation, PageState, Port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class RunStates(Struct, frozen=True):
    """A run's datasets between its operations, the operations and the column edges, all by place."""

    states: tuple[PageState, ...]
    operations: tuple[PageOperation, ...]
    edges: tuple[PageEdge, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]


def run_states(run: NotebookRun) -> RunStates:
    """Follow a run operation by operation, and give every dataset in between a place of its own."""
    book = _Book()
    edges_of = _edges_by_operation(run)
    cell_of = {cell.execution_id: place for place, cell in enumerate(run.cells)}
    operations: list[PageOperation] = []
    edges: list[PageEdge] = []
    for place, operation in enumerate(_in_run_order(run, cell_of)):
        sources = edges_of.pop(operation.run_uuid, ())
        inputs = book.inputs(operation, sources)
        outputs = book.outputs(operation, sources, place)
        operations.append(_page_operation(operation, cell_of, inputs, outputs))
        edges += [_page_edge(edge, inputs, outputs, place) for edge in sources]
    for edge in (edge for rest in edges_of.values() for edge in rest):
        edges.append(
            _page_edge(
                edge, book.seen([(edge.source, edge.source_version)]), book.seen([(edge.dataset, edge.version)]), None
            )
        )
    reads = tuple(dict.fromkeys(book.outside(state) for state in run.reads))
    writes = tuple(dict.fromkeys(book.latest(state) for state in run.writes))
    book.name_columns(edges)
    return RunStates(
        states=tuple(book.states),
        operations=tuple(operations),
        edges=tuple(dict.fromkeys(edges)),
        reads=reads,
        writes=writes,
    )


def _in_run_order(run: NotebookRun, cell_of: Mapping[str, int]) -> list[Operation]:
    """Operations cell by cell: the clock of an event is not trusted to order what two cells did."""
    return sorted(run.operations, key=lambda operation: cell_of.get(operation.execution_id, len(cell_of)))


_Key = tuple[Dataset, str | None]


class _Book:
    """The states so far, and which one each dataset is in at the moment."""

    def __init__(self) -> None:
        self.states: list[PageState] = []
        self._now: dict[_Key, int] = {}
        self._last: dict[Dataset, int] = {}

    def inputs(self, operation: Operation, edges: Iterable[ColumnEdge]) -> dict[_Key, int]:
        found = {(s.dataset, s.version): self._current((s.dataset, s.version), s) for s in operation.inputs}
        return found | self.seen(
            (edge.source, edge.source_version) for edge in edges if (edge.source, edge.source_version) not in found
        )

    def seen(self, keys: Iterable[_Key]) -> dict[_Key, int]:
        return {key: self._current(key) for key in keys}

    def outputs(self, operation: Operation, edges: Iterable[ColumnEdge], producer: int) -> dict[_Key, int]:
        made: dict[_Key, DatasetState] = {(s.dataset, s.version): s for s in operation.outputs}
        for edge in edges:
            made.setdefault((edge.dataset, edge.version), DatasetState(edge.dataset, edge.version, (), None))
        return {key: self._add(state, producer) for key, state in made.items()}

    def outside(self, state: DatasetState) -> int:
        """The state of a dataset before the run touched it."""
        for place, known in enumerate(self.states):
            if (known.namespace, known.name, known.producer) == (state.dataset.namespace, state.dataset.name, None):
                self._describe(place, state)
                return place
        return self._current((state.dataset, state.version), state)

    def latest(self, state: DatasetState) -> int:
        """The state in which the run left a dataset."""
        place = self._last.get(state.dataset)
        if place is None:
            return self._add(state, None)
        self._describe(place, state)
        return place

    def name_columns(self, edges: Iterable[PageEdge]) -> None:
        """Add the columns that only an edge names, so that every end of an edge is a port."""
        named: defaultdict[int, dict[str, None]] = defaultdict(dict)
        for port in (port for edge in edges for port in (edge.source, edge.target)):
            if port.column is not None:
                named[port.state][port.column] = None
        for place, columns in named.items():
            state = self.states[place]
            known = {field.name for field in state.columns}
            extra = tuple(Field(name=column) for column in columns if column not in known)
            self.states[place] = structs.replace(state, columns=state.columns + extra)

    def _current(self, key: _Key, described: DatasetState | None = None) -> int:
        place = self._now.get(key)
        if place is None and key[1] is None:
            place = self._last.get(key[0])
        if place is None:
            return self._add(described or DatasetState(key[0], key[1], (), None), None)
        if described is not None:
            self._describe(place, described)
        return place

    def _add(self, state: DatasetState, producer: int | None) -> int:
        place = len(self.states)
        self.states.append(_page_state(state, producer))
        self._now[state.dataset, state.version] = place
        self._last[state.dataset] = place
        return place

    def _describe(self, place: int, state: DatasetState) -> None:
        """Fill in what an earlier mention of the same state left out."""
        known = self.states[place]
        rows = known.row_count if known.row_count is not None else state.row_count
        self.states[place] = structs.replace(known, columns=known.columns or state.fields, row_count=rows)


def _edges_by_operation(run: NotebookRun) -> dict[str | None, tuple[ColumnEdge, ...]]:
    by_job = {operation.job_name: operation.run_uuid for operation in run.operations}
    groups: defaultdict[str | None, list[ColumnEdge]] = defaultdict(list)
    for edge in run.edges:
        groups[edge.run_uuid or by_job.get(edge.job_name)].append(edge)
    return {run_uuid: tuple(edges) for run_uuid, edges in groups.items()}


def _page_operation(
    operation: Operation, cell_of: Mapping[str, int], inputs: Mapping[_Key, int], outputs: Mapping[_Key, int]
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
    edge: ColumnEdge, inputs: Mapping[_Key, int], outputs: Mapping[_Key, int], operation: int | None
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
        label=dataset_label(state.dataset),
        kind="frame" if state.dataset.namespace == FRAMES else "file",
        version=state.version,
        row_count=state.row_count,
        columns=state.fields,
        producer=producer,
    )


def dataset_label(dataset: Dataset) -> str:
    """What a person calls a dataset: the variable of a frame, the last part of a path."""
    if dataset.namespace != FRAMES:
        return PurePosixPath(dataset.name).name or dataset.name
    _, _, name = dataset.name.partition("/")
    cell, slash, operation = name.partition("/")
    if not slash:
        return name or dataset.name
    return f"{cell}: {operation.removeprefix('dataframe_').removeprefix('pandas_')}"
