"""Upstream lineage of a column, with the code of each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.backends.base import Row
from clew.index.queries.reader import IndexReader
from clew.query.model import CellExecution, ColumnLineageEdge, DatasetName, LineageStep, NotebookOperation, NotebookRun
from clew.query.notebooks.session import column_edge_from_row, find_notebook_run

# OpenLineage: of several transformations along a path the strongest one names the result.
SUBTYPE_RANK = {None: 0, "IDENTITY": 1, "TRANSFORMATION": 2, "AGGREGATION": 3}


def is_intermediate_frame(dataset: DatasetName) -> bool:
    """Return whether a frame was never assigned to a variable; it is then named after its operation."""
    return dataset.namespace == NOTEBOOK_NAMESPACE and dataset.name.count("/") > 1


def collapse_frames(step: LineageStep) -> LineageStep:
    """Return the tree without intermediate frames; duplicate sources are merged."""
    sources: dict[object, LineageStep] = {}
    for source in _named_sources(step):
        sources.setdefault((source.dataset, source.version, source.column, _edge_key(source.edge)), source)
    return msgspec.structs.replace(step, upstream=tuple(sources.values()))


def _edge_key(edge: ColumnLineageEdge | None) -> object:
    return None if edge is None else (edge.type, edge.subtype, edge.flag, edge.run_uuid)


def _named_sources(step: LineageStep) -> Iterator[LineageStep]:
    for source in step.upstream:
        if not is_intermediate_frame(source.dataset):
            yield collapse_frames(source)
            continue
        for ancestor in _named_sources(source):
            edge = _compose_edges(source.edge, ancestor.edge)
            if edge is not None:
                yield msgspec.structs.replace(ancestor, edge=edge, operation=source.operation, cell=source.cell)


def _compose_edges(near: ColumnLineageEdge | None, far: ColumnLineageEdge | None) -> ColumnLineageEdge | None:
    """Compose the edges on both sides of an intermediate frame; None for INDIRECT after INDIRECT."""
    if near is None or far is None:
        return None
    if near.type == "INDIRECT":
        # INDIRECT after INDIRECT is not followed.
        dominant = near if far.type == "DIRECT" else None
    elif far.type == "INDIRECT":
        dominant = far
    else:
        dominant = max(near, far, key=lambda edge: SUBTYPE_RANK.get(edge.subtype, 0))
    if dominant is None:
        return None
    return msgspec.structs.replace(
        near,
        source=far.source,
        source_version=far.source_version,
        source_column=far.source_column,
        type=dominant.type,
        subtype=dominant.subtype,
        flag=near.flag or far.flag,
    )


MAX_DEPTH = 50

_Column = tuple[DatasetName, str | None, str | None]
_FrameVisit = tuple[_Column, bool]


def trace_upstream(index: IndexReader, dataset: DatasetName, column: str, *, depth: int = MAX_DEPTH) -> LineageStep:
    """Trace a column upstream, back to columns without a recorded producer."""
    version = index.last_version(dataset.namespace, dataset.name)
    return _UpstreamTraversal(index).root((dataset, version, column), min(depth, MAX_DEPTH))


@dataclass
class _UpstreamTraversal:
    index: IndexReader
    _seen: set[_Column] = field(default_factory=set)
    _sessions: dict[str, NotebookRun | None] = field(default_factory=dict)

    def root(self, column: _Column, depth: int) -> LineageStep:
        """Build the tree of the start column."""
        self._seen.add(column)
        rows = _latest_assertions(_latest_session_only(self._edges(column), column[0]))
        return LineageStep(*column, edge=None, operation=None, cell=None, upstream=self._sources(rows, depth, set()))

    def _sources(
        self, rows: list[Row], depth: int, visited: set[_FrameVisit], *, is_indirect: bool = False
    ) -> tuple[LineageStep, ...]:
        """Return the upstream steps of a column or intermediate frame; `visited` are the frames passed."""
        return tuple(self._source(row, depth, visited, is_indirect=is_indirect) for row in rows) if depth else ()

    def _source(self, row: Row, depth: int, visited: set[_FrameVisit], *, is_indirect: bool) -> LineageStep:
        edge = column_edge_from_row(row)
        column: _Column = (edge.source, edge.source_version, edge.source_column)
        is_indirect = is_indirect or edge.type == "INDIRECT"
        is_repeated = False
        upstream: tuple[LineageStep, ...] = ()
        if is_intermediate_frame(edge.source):
            upstream = self._expand_through_frame(column, row, depth, visited, is_indirect=is_indirect)
        elif not is_indirect:
            is_repeated = column in self._seen
            upstream = () if is_repeated else self._expand(column, row, depth)
        operation, cell = self._producer(row)
        return LineageStep(
            *column, edge=edge, operation=operation, cell=cell, upstream=upstream, is_repeated=is_repeated
        )

    def _expand(self, column: _Column, row: Row, depth: int) -> tuple[LineageStep, ...]:
        self._seen.add(column)
        return self._sources(self._edges_before(column, row), depth - 1, set())

    def _expand_through_frame(
        self, column: _Column, row: Row, depth: int, visited: set[_FrameVisit], *, is_indirect: bool
    ) -> tuple[LineageStep, ...]:
        """Expand an intermediate frame, once per named column even if several paths lead to it."""
        visit = (column, is_indirect)
        if visit in visited:
            return ()
        visited.add(visit)
        rows = self._edges_before(column, row)
        # INDIRECT after INDIRECT is not followed.
        followed = [edge for edge in rows if edge["type"] != "INDIRECT"] if is_indirect else rows
        return self._sources(followed, depth, visited, is_indirect=is_indirect)

    def _edges(self, column: _Column) -> list[Row]:
        dataset, version, name = column
        return [] if name is None else self.index.edges_into(dataset.namespace, dataset.name, version, name)

    def _edges_before(self, column: _Column, usage: Row) -> list[Row]:
        """Return the latest edges into a column before its use, preferring the same session."""
        edges = [row for row in self._edges(column) if _event_order(row) < _event_order(usage)]
        return _latest_assertions([row for row in edges if row["session_id"] == usage["session_id"]] or edges)

    def _producer(self, edge: Row) -> tuple[NotebookOperation | None, CellExecution | None]:
        run = self._run(edge["session_id"])
        if run is None:
            return None, None
        operation = next((operation for operation in run.operations if operation.run_uuid == edge["run_uuid"]), None)
        if operation is None:
            return None, None
        return operation, next((cell for cell in run.cells if cell.execution_id == operation.execution_id), None)

    def _run(self, session_id: str | None) -> NotebookRun | None:
        if session_id is None:
            return None
        if session_id not in self._sessions:
            self._sessions[session_id] = find_notebook_run(self.index, session_id)
        return self._sessions[session_id]


def _event_order(row: Row) -> tuple[int, int]:
    # Log order is not run order: sessions may be ingested later, so event time decides first.
    return row["event_time"], row["seq"]


def _latest_session_only(rows: list[Row], dataset: DatasetName) -> list[Row]:
    """Restrict the edges of an in-memory frame to the latest session."""
    return [
        row for row in rows if dataset.namespace != NOTEBOOK_NAMESPACE or row["session_id"] == rows[0]["session_id"]
    ]


def _latest_assertions(rows: list[Row]) -> list[Row]:
    """Select the latest assertion of each job; rows are sorted newest first."""
    latest: dict[tuple[str | None, str | None], str] = {}
    for row in rows:
        latest.setdefault((row["job_namespace"], row["job_name"]), row["asserted_by"])
    return [row for row in rows if row["asserted_by"] == latest[row["job_namespace"], row["job_name"]]]


# Phrases for INDIRECT transformation subtypes.
INDIRECT_PHRASES = {
    "FILTER": "filtered by",
    "JOIN": "joined on",
    "GROUP_BY": "grouped by",
    "SORT": "sorted by",
    "WINDOW": "windowed by",
    "CONDITIONAL": "depending on",
}
DEFAULT_INDIRECT_PHRASE = "depending on"


class OperationStep(Struct, frozen=True):
    """A column, and its sources read by one operation."""

    column: LineageStep
    sources: tuple[LineageStep, ...]

    @property
    def direct(self) -> tuple[LineageStep, ...]:
        """DIRECT sources."""
        return tuple(source for source in self.sources if not is_indirect(source))

    @property
    def indirect(self) -> tuple[LineageStep, ...]:
        """INDIRECT sources."""
        return tuple(filter(is_indirect, self.sources))


def group_by_operation(step: LineageStep) -> list[OperationStep]:
    """Group the sources of a column by operation."""
    groups: dict[str | None, list[LineageStep]] = {}
    for source in step.upstream:
        groups.setdefault(None if source.edge is None else source.edge.run_uuid, []).append(source)
    return [OperationStep(step, tuple(group)) for group in groups.values()]


def is_indirect(step: LineageStep) -> bool:
    """Return whether the edge of a step is INDIRECT."""
    return step.edge is not None and step.edge.type == "INDIRECT"


def indirect_phrase(step: LineageStep) -> str:
    """Return the phrase for the INDIRECT subtype, such as `filtered by`."""
    subtype = None if step.edge is None else step.edge.subtype
    return INDIRECT_PHRASES.get(subtype or "", DEFAULT_INDIRECT_PHRASE)
