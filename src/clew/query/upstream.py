"""Upstream tree of a column; each step has the operation that produced it."""

from __future__ import annotations

from dataclasses import dataclass, field

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.reader import IndexReader, Row
from clew.query.folding import is_intermediate_frame
from clew.query.model import CellExecution, DatasetName, LineageStep, NotebookOperation, NotebookRun
from clew.query.notebook_runs import column_edge_from_row, find_notebook_run

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
