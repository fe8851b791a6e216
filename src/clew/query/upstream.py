"""Where a column came from: directed, bounded, each hop with the operation that made it."""

from __future__ import annotations

from dataclasses import dataclass, field

from clew.events.notebook import FRAMES
from clew.index.reader import IndexReader, Row
from clew.query.folding import is_unnamed
from clew.query.model import CellExecution, Dataset, Hop, NotebookRun, Operation
from clew.query.notebook_runs import edge_of, find_run

MOST_HOPS = 50

_Column = tuple[Dataset, str | None, str | None]
_Passage = tuple[_Column, bool]


def upstream(index: IndexReader, dataset: Dataset, column: str, *, depth: int = MOST_HOPS) -> Hop:
    """The tree of columns that a column was made from, back to what no run is known to have made."""
    version = index.last_version(dataset.namespace, dataset.name)
    return _Walk(index).root((dataset, version, column), min(depth, MOST_HOPS))


@dataclass
class _Walk:
    index: IndexReader
    _seen: set[_Column] = field(default_factory=set)
    _sessions: dict[str, NotebookRun | None] = field(default_factory=dict)

    def root(self, column: _Column, depth: int) -> Hop:
        """The column that was asked for, and what leads to it."""
        self._seen.add(column)
        rows = _last_statements(_of_last_session(self._edges(column), column[0]))
        return Hop(*column, edge=None, operation=None, cell=None, upstream=self._sources(rows, depth, set()))

    def _sources(
        self, rows: list[Row], depth: int, passed: set[_Passage], *, is_influence: bool = False
    ) -> tuple[Hop, ...]:
        """The hops that lead to a column, or to an unnamed frame on the way to it; `passed` are those frames."""
        return tuple(self._source(row, depth, passed, is_influence=is_influence) for row in rows) if depth else ()

    def _source(self, row: Row, depth: int, passed: set[_Passage], *, is_influence: bool) -> Hop:
        edge = edge_of(row)
        column: _Column = (edge.source, edge.source_version, edge.source_column)
        is_influence = is_influence or edge.type == "INDIRECT"
        is_repeated = False
        upstream: tuple[Hop, ...] = ()
        if is_unnamed(edge.source):
            upstream = self._beyond(column, row, depth, passed, is_influence=is_influence)
        elif not is_influence:
            is_repeated = column in self._seen
            upstream = () if is_repeated else self._behind(column, row, depth)
        operation, cell = self._made_by(row)
        return Hop(*column, edge=edge, operation=operation, cell=cell, upstream=upstream, is_repeated=is_repeated)

    def _behind(self, column: _Column, row: Row, depth: int) -> tuple[Hop, ...]:
        self._seen.add(column)
        return self._sources(self._before(column, row), depth - 1, set())

    def _beyond(
        self, column: _Column, row: Row, depth: int, passed: set[_Passage], *, is_influence: bool
    ) -> tuple[Hop, ...]:
        """What is beyond a frame without a name; told once below each column, however many ways lead there."""
        passage = (column, is_influence)
        if passage in passed:
            return ()
        passed.add(passage)
        rows = self._before(column, row)
        # What only influences an influence says nothing of the column.
        followed = [one for one in rows if one["type"] != "INDIRECT"] if is_influence else rows
        return self._sources(followed, depth, passed, is_influence=is_influence)

    def _edges(self, column: _Column) -> list[Row]:
        dataset, version, name = column
        return [] if name is None else self.index.edges_to(dataset.namespace, dataset.name, version, name)

    def _before(self, column: _Column, used: Row) -> list[Row]:
        """The statement that had made the column when it was used: the same session's if it has one."""
        found = [row for row in self._edges(column) if _moment(row) < _moment(used)]
        return _last_statements([row for row in found if row["session_id"] == used["session_id"]] or found)

    def _made_by(self, edge: Row) -> tuple[Operation | None, CellExecution | None]:
        run = self._run(edge["session_id"])
        if run is None:
            return None, None
        operation = next((one for one in run.operations if one.run_uuid == edge["run_uuid"]), None)
        if operation is None:
            return None, None
        return operation, next((cell for cell in run.cells if cell.execution_id == operation.execution_id), None)

    def _run(self, session_id: str | None) -> NotebookRun | None:
        if session_id is None:
            return None
        if session_id not in self._sessions:
            self._sessions[session_id] = find_run(self.index, session_id)
        return self._sessions[session_id]


def _moment(row: Row) -> tuple[int, int]:
    # Sessions reach the log one after the other, whenever they ran: the order of events is that of their own times.
    return row["event_time"], row["seq"]


def _of_last_session(rows: list[Row], dataset: Dataset) -> list[Row]:
    """Of a frame, which is made anew in every session, only what the last session said of it."""
    return [row for row in rows if dataset.namespace != FRAMES or row["session_id"] == rows[0]["session_id"]]


def _last_statements(rows: list[Row]) -> list[Row]:
    """Rows come newest first; jobs that each write the dataset all count, with their last word."""
    last: dict[tuple[str | None, str | None], str] = {}
    for row in rows:
        last.setdefault((row["job_namespace"], row["job_name"]), row["author"])
    return [row for row in rows if row["author"] == last[row["job_namespace"], row["job_name"]]]
