"""Which runs made what a run read, and which read what it made: by the versions that they name, else by their times."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from clew.index.entities import child_runs, readers_after, run_io_rows, run_row, writer_before
from clew.index.reader import IndexReader, Row
from clew.query.graph.lens import RollUp
from clew.query.graph.walk import Direction
from clew.query.model import Dataset
from clew.query.names import UnknownNameError

_MOST_READERS = 100
_MOST_ANCESTORS = 50


class FoundRun(Struct, frozen=True):
    """A run that a walk came to; `distance` is less than 0 upstream."""

    run_uuid: str
    distance: int
    row: Row


class RunEdge(Struct, frozen=True):
    """That a run read what another had written."""

    writer: str
    reader: str
    dataset: Dataset
    version: str | None


class RunWalk(Struct, frozen=True):
    """What a walk came to, the nearest first."""

    found: tuple[FoundRun, ...]
    edges: tuple[RunEdge, ...]
    is_cut: bool


def require_run(index: IndexReader, run_uuid: str) -> Row:
    """A run that is known."""
    row = run_row(index, run_uuid)
    if row is None:
        raise UnknownNameError(f"There is no run {run_uuid!r}.", hint="A run is named by the runId of its events.")
    return row


def run_walk(
    index: IndexReader,
    run_uuid: str,
    direction: Direction = "upstream",
    *,
    depth: int = 20,
    limit: int = 500,
    roll_up: RollUp = "none",
) -> RunWalk:
    """Go from a run to runs; rolled up, a run is told as its parent or as the first of all."""
    walk = _Walk(index, limit)
    start = require_run(index, run_uuid)
    starts = [start]
    if roll_up != "none" or not run_io_rows(index, run_uuid):
        # A run that only started others is where those are.
        starts += child_runs(index, run_uuid, limit)
    for way, is_forward in (("upstream", False), ("downstream", True)):
        if direction in (way, "both"):
            walk.go(starts, depth, is_forward=is_forward)
    return walk.result(roll_up)


class _Walk:
    def __init__(self, index: IndexReader, limit: int) -> None:
        self._index, self._limit = index, limit
        self._found: dict[str, FoundRun] = {}
        self._edges: dict[RunEdge, None] = {}
        self._is_cut = False

    def go(self, starts: list[Row], depth: int, *, is_forward: bool) -> None:
        frontier = starts
        for start in starts:
            self._take(start, 0)
        seen = {start["run_uuid"] for start in starts}
        for distance in range(1, depth + 1):
            beyond = []
            for run in frontier:
                for other, edge in self._forward(run) if is_forward else self._backward(run):
                    if self._take(other, distance if is_forward else -distance):
                        self._edges[edge] = None
                        if other["run_uuid"] not in seen:
                            seen.add(other["run_uuid"])
                            beyond.append(other)
            frontier = beyond

    def result(self, roll_up: RollUp) -> RunWalk:
        if roll_up == "none":
            return RunWalk(tuple(self._found.values()), tuple(self._edges), self._is_cut)
        shown = {name: self._ancestor(run.row, roll_up) for name, run in self._found.items()}
        found: dict[str, FoundRun] = {}
        for name, run in self._found.items():
            row = shown[name]
            found.setdefault(row["run_uuid"], FoundRun(row["run_uuid"], run.distance, row))
        edges = {
            RunEdge(shown[edge.writer]["run_uuid"], shown[edge.reader]["run_uuid"], edge.dataset, edge.version): None
            for edge in self._edges
        }
        return RunWalk(tuple(found.values()), tuple(one for one in edges if one.writer != one.reader), self._is_cut)

    def _take(self, run: Row, distance: int) -> bool:
        if run["run_uuid"] in self._found:
            return True
        if len(self._found) >= self._limit:
            self._is_cut = True
            return False
        self._found[run["run_uuid"]] = FoundRun(run["run_uuid"], distance, run)
        return True

    def _backward(self, run: Row) -> Iterator[tuple[Row, RunEdge]]:
        for read in run_io_rows(self._index, run["run_uuid"]):
            if read["direction"] == "INPUT":
                writer = writer_before(self._index, read, run)
                if writer is not None:
                    yield writer, _edge(writer, run, read)

    def _forward(self, run: Row) -> Iterator[tuple[Row, RunEdge]]:
        for written in run_io_rows(self._index, run["run_uuid"]):
            if written["direction"] == "OUTPUT":
                for reader in readers_after(self._index, written, run, _MOST_READERS):
                    yield reader, _edge(run, reader, written)

    def _ancestor(self, run: Row, roll_up: RollUp) -> Row:
        passed = {run["run_uuid"]}
        for _ in range(1 if roll_up == "parent" else _MOST_ANCESTORS):
            name = run["parent_run_uuid"]
            parent = None if name is None or name in passed else run_row(self._index, name)
            if parent is None:
                break
            passed.add(name)
            run = parent
        return run


def _edge(writer: Row, reader: Row, io: Row) -> RunEdge:
    dataset = Dataset(io["dataset_namespace"], io["dataset_name"])
    return RunEdge(writer["run_uuid"], reader["run_uuid"], dataset, io["dataset_version"] or None)
