"""Traverse run to run: a reader is matched to the writer by dataset version, otherwise by time."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from clew.index.entities import consumers_after, find_run, list_child_runs, list_run_io, producer_before
from clew.index.reader import IndexReader, Row
from clew.query.graph.lens import RollUp
from clew.query.graph.walk import Direction
from clew.query.model import DatasetName
from clew.query.names import UnknownNameError

_MAX_READERS = 100
_MAX_ANCESTORS = 50


class VisitedRun(Struct, frozen=True):
    """A visited run; `distance` is negative upstream."""

    run_uuid: str
    distance: int
    row: Row


class RunEdge(Struct, frozen=True):
    """An edge from the run that wrote a dataset to a run that read it."""

    writer: str
    reader: str
    dataset: DatasetName
    version: str | None


class RunTraversal(Struct, frozen=True):
    """Result of a traversal, nearest runs first."""

    runs: tuple[VisitedRun, ...]
    edges: tuple[RunEdge, ...]
    is_truncated: bool


def require_run(index: IndexReader, run_uuid: str) -> Row:
    """Return the row of a run; raise if it does not exist."""
    row = find_run(index, run_uuid)
    if row is None:
        raise UnknownNameError(
            f"There is no run {run_uuid!r}.", hint="Pass the runId of its events; `clew runs` lists recent runs."
        )
    return row


def traverse_runs(
    index: IndexReader,
    run_uuid: str,
    direction: Direction = "upstream",
    *,
    depth: int = 20,
    limit: int = 500,
    roll_up: RollUp = "none",
) -> RunTraversal:
    """Traverse from a run to other runs; with `roll_up`, replace each by its parent or root run."""
    traversal = _RunTraverser(index, limit)
    start = require_run(index, run_uuid)
    starts = [start]
    if roll_up != "none" or not list_run_io(index, run_uuid):
        # A run without inputs and outputs is represented by its child runs.
        starts += list_child_runs(index, run_uuid, limit)
    for name, is_forward in (("upstream", False), ("downstream", True)):
        if direction in (name, "both"):
            traversal.traverse(starts, depth, is_forward=is_forward)
    return traversal.result(roll_up)


class _RunTraverser:
    def __init__(self, index: IndexReader, limit: int) -> None:
        self._index, self._limit = index, limit
        self._runs: dict[str, VisitedRun] = {}
        self._edges: dict[RunEdge, None] = {}
        self._is_truncated = False

    def traverse(self, starts: list[Row], depth: int, *, is_forward: bool) -> None:
        frontier = starts
        for start in starts:
            self._visit(start, 0)
        seen = {start["run_uuid"] for start in starts}
        for distance in range(1, depth + 1):
            next_frontier = []
            for run in frontier:
                for other, edge in self._readers(run) if is_forward else self._writers(run):
                    if self._visit(other, distance if is_forward else -distance):
                        self._edges[edge] = None
                        if other["run_uuid"] not in seen:
                            seen.add(other["run_uuid"])
                            next_frontier.append(other)
            frontier = next_frontier

    def result(self, roll_up: RollUp) -> RunTraversal:
        if roll_up == "none":
            return RunTraversal(tuple(self._runs.values()), tuple(self._edges), self._is_truncated)
        shown_runs = {name: self._ancestor(run.row, roll_up) for name, run in self._runs.items()}
        runs: dict[str, VisitedRun] = {}
        for name, run in self._runs.items():
            row = shown_runs[name]
            runs.setdefault(row["run_uuid"], VisitedRun(row["run_uuid"], run.distance, row))
        edges = {
            RunEdge(
                shown_runs[edge.writer]["run_uuid"], shown_runs[edge.reader]["run_uuid"], edge.dataset, edge.version
            ): None
            for edge in self._edges
        }
        return RunTraversal(
            tuple(runs.values()), tuple(edge for edge in edges if edge.writer != edge.reader), self._is_truncated
        )

    def _visit(self, run: Row, distance: int) -> bool:
        if run["run_uuid"] in self._runs:
            return True
        if len(self._runs) >= self._limit:
            self._is_truncated = True
            return False
        self._runs[run["run_uuid"]] = VisitedRun(run["run_uuid"], distance, run)
        return True

    def _writers(self, run: Row) -> Iterator[tuple[Row, RunEdge]]:
        for read in list_run_io(self._index, run["run_uuid"]):
            if read["direction"] == "INPUT":
                writer = producer_before(self._index, read, run)
                if writer is not None:
                    yield writer, _edge(writer, run, read)

    def _readers(self, run: Row) -> Iterator[tuple[Row, RunEdge]]:
        for written in list_run_io(self._index, run["run_uuid"]):
            if written["direction"] == "OUTPUT":
                for reader in consumers_after(self._index, written, run, _MAX_READERS):
                    yield reader, _edge(run, reader, written)

    def _ancestor(self, run: Row, roll_up: RollUp) -> Row:
        visited = {run["run_uuid"]}
        for _ in range(1 if roll_up == "parent" else _MAX_ANCESTORS):
            name = run["parent_run_uuid"]
            parent = None if name is None or name in visited else find_run(self._index, name)
            if parent is None:
                break
            visited.add(name)
            run = parent
        return run


def _edge(writer: Row, reader: Row, io: Row) -> RunEdge:
    dataset = DatasetName(io["dataset_namespace"], io["dataset_name"])
    return RunEdge(writer["run_uuid"], reader["run_uuid"], dataset, io["dataset_version"] or None)
