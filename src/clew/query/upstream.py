"""Upstream lineage of a column, with the code of each step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, structs

from clew.errors import UsageError
from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.index.queries.lineage import NOW, LatestAssertion, Position, latest_assertions
from clew.index.queries.reader import IndexReader
from clew.index.queries.records import AssertedEdge
from clew.query.graph.column_graph import AdjacentColumn, to_transformation
from clew.query.graph.nodes import Column
from clew.query.graph.traversal import UNLIMITED, traverse_columns
from clew.query.model import (
    CellExecution,
    ColumnLineageEdge,
    DatasetName,
    LineageStep,
    NotebookOperation,
    NotebookRun,
    to_edge_type,
)
from clew.query.notebooks.session import find_notebook_run, lineage_flag

MAX_DEPTH = 50


def trace_upstream(
    index: IndexReader, column: Column, *, depth: int = MAX_DEPTH, is_collapsed: bool = True
) -> LineageStep:
    """Trace a column upstream to columns without a recorded producer; if collapsed, a method chain is one step."""
    if depth < 1:
        raise UsageError(f"Invalid depth: {depth}.", hint="Pass a depth of 1 or more.")
    depth = min(depth, MAX_DEPTH)
    graph = HistoryGraph(index)
    dataset = DatasetName(column.namespace, column.dataset)
    root = graph.find(_ColumnVersion(dataset, index.last_version(column.namespace, column.dataset), column.column))
    traversal = traverse_columns(
        graph,
        [root],
        depth=depth,
        limit=UNLIMITED,
        is_hidden=lambda number: graph.column_version(number).dataset.is_intermediate_frame,
    )
    trails: dict[int, list[_Trail]] = {}
    for edge in traversal.edges:
        own = AdjacentColumn(edge.start, edge.transformation, edge.job, edge.origin)
        trail = (own,) if is_collapsed or not edge.via else edge.via
        trails.setdefault(edge.end, []).append(_Trail(edge.transformation.type == "INDIRECT", trail, edge.via))
    return _TreeBuilder(index, graph, trails).root(root, depth)


class _ColumnVersion(Struct, frozen=True):
    dataset: DatasetName
    version: str | None
    column: str | None


class _Usage(Struct, frozen=True):
    """Position and notebook session of the assertion that uses a column as source."""

    position: Position
    session_id: str | None


class HistoryGraph:
    """Column graph in which each column has the edges at the time of its use, not the latest ones.

    The origin of an edge is its `ColumnLineageEdge`.
    """

    def __init__(self, index: IndexReader) -> None:
        self._index = index
        self._numbers: dict[_ColumnVersion, int] = {}
        self._columns: list[_ColumnVersion] = []
        self._usages: list[_Usage] = []
        self.session_of: dict[str | None, str | None] = {}

    def find(self, column: _ColumnVersion, usage: _Usage | None = None) -> int:
        """Return the number of a column; the first use of a column counts."""
        number = self._numbers.setdefault(column, len(self._columns))
        if number == len(self._columns):
            self._columns.append(column)
            self._usages.append(usage or _Usage(NOW, None))
        return number

    def column_version(self, number: int) -> _ColumnVersion:
        """Return the column with a number."""
        return self._columns[number]

    def adjacent_columns(self, number: int, *, is_forward: bool = False) -> Iterator[AdjacentColumn]:
        """Yield the edges into a column by the latest assertions before its use, preferring the same session."""
        column, usage = self._columns[number], self._usages[number]
        if is_forward or column.column is None:
            return
        names = self._index.all_names(column.dataset.namespace, column.dataset.name)
        for session_id in dict.fromkeys((usage.session_id, None)):
            edges = [
                (assertion, edge)
                for assertion in latest_assertions(self._index, names, usage.position, session_id)
                if _is_same_version(assertion, column)
                for edge in self._index.asserted_edges([assertion.edge_set_id])
                if edge.column in (column.column, None)
            ]
            if edges:
                break
        for assertion, edge in sorted(edges, key=lambda pair: pair[0].position, reverse=True):
            self.session_of[assertion.run_uuid] = assertion.session_id
            origin = self._lineage_edge(assertion, edge)
            source = _ColumnVersion(origin.source, origin.source_version, origin.source_column)
            end = self.find(source, _Usage(assertion.position, assertion.session_id))
            yield AdjacentColumn(end, to_transformation(edge), assertion.job, origin)

    def _lineage_edge(self, assertion: LatestAssertion, edge: AssertedEdge) -> ColumnLineageEdge:
        source = DatasetName(edge.source_namespace, edge.source_name)
        run = assertion.run_uuid
        source_version = "" if run is None else self._index.input_version(run, source.namespace, source.name)
        return ColumnLineageEdge(
            dataset=DatasetName(assertion.dataset_namespace, assertion.dataset_name),
            version=assertion.dataset_version or None,
            column=edge.column,
            source=source,
            source_version=source_version or None,
            source_column=edge.source_column,
            type=to_edge_type(edge.type),
            subtype=edge.subtype,
            flag=lineage_flag(edge.description),
            run_uuid=run,
            job_name=assertion.job_name or "",
        )


def _is_same_version(assertion: LatestAssertion, column: _ColumnVersion) -> bool:
    """Compare the versions of in-memory frames; other datasets have the lineage of all their writers."""
    is_frame = assertion.dataset_namespace == NOTEBOOK_NAMESPACE
    return not is_frame or not column.version or assertion.dataset_version in ("", column.version)


class _Trail(Struct, frozen=True):
    """Edges from a column to one of its sources: one if collapsed. `via` are those over intermediate frames."""

    is_indirect: bool
    edges: tuple[AdjacentColumn, ...]
    via: tuple[AdjacentColumn, ...]


class _TreeBuilder:
    """Builds the tree of a traversal; a column is expanded where it occurs first."""

    def __init__(self, index: IndexReader, graph: HistoryGraph, trails: dict[int, list[_Trail]]) -> None:
        self._index, self._graph, self._trails = index, graph, trails
        self._expanded: set[int] = set()
        self._sessions: dict[str, NotebookRun | None] = {}

    def root(self, number: int, depth: int) -> LineageStep:
        """Build the tree of the start column."""
        column = self._graph.column_version(number)
        upstream = self._expand(number, depth)
        return LineageStep(column.dataset, column.version, column.column, None, None, None, upstream)

    def _expand(self, number: int, depth: int) -> tuple[LineageStep, ...]:
        self._expanded.add(number)
        return tuple(self._steps(self._trails.get(number, ()), depth)) if depth else ()

    def _steps(self, trails: Iterable[_Trail], depth: int) -> Iterator[LineageStep]:
        """Yield a step per distinct next edge of the trails."""
        groups: dict[tuple[ColumnLineageEdge, int], list[_Trail]] = {}
        for trail in trails:
            groups.setdefault((_composed_edge(trail), trail.edges[0].end), []).append(trail)
        for (edge, number), group in groups.items():
            rest = [structs.replace(trail, edges=trail.edges[1:], via=()) for trail in group if len(trail.edges) > 1]
            is_repeated = False
            upstream = tuple(self._steps(rest, depth))
            if not rest and not group[0].is_indirect:
                is_repeated = number in self._expanded
                upstream = () if is_repeated else self._expand(number, depth - 1)
            operation, cell = self._producer(edge)
            yield LineageStep(
                edge.source,
                edge.source_version,
                edge.source_column,
                edge=edge,
                operation=operation,
                cell=cell,
                upstream=upstream,
                is_repeated=is_repeated,
            )

    def _producer(self, edge: ColumnLineageEdge) -> tuple[NotebookOperation | None, CellExecution | None]:
        run = self._run(self._graph.session_of.get(edge.run_uuid))
        if run is None:
            return None, None
        operation = next((operation for operation in run.operations if operation.run_uuid == edge.run_uuid), None)
        if operation is None:
            return None, None
        return operation, next((cell for cell in run.cells if cell.execution_id == operation.execution_id), None)

    def _run(self, session_id: str | None) -> NotebookRun | None:
        if session_id is None:
            return None
        if session_id not in self._sessions:
            self._sessions[session_id] = find_notebook_run(self._index, session_id)
        return self._sessions[session_id]


def _composed_edge(trail: _Trail) -> ColumnLineageEdge:
    """Return the edge of a step: that of the assertion, or the composition of those over intermediate frames."""
    near, transformation = trail.edges[0], trail.edges[0].transformation
    edge: ColumnLineageEdge = near.origin
    if len(trail.edges) > 1 or not trail.via:
        return edge
    far: ColumnLineageEdge = trail.via[-1].origin
    return structs.replace(
        edge,
        source=far.source,
        source_version=far.source_version,
        source_column=far.source_column,
        type=transformation.type,
        subtype=transformation.subtype,
        flag=next((step.origin.flag for step in trail.via if step.origin.flag), None),
    )


class OperationStep(Struct, frozen=True):
    """A column, and its sources read by one operation."""

    column: LineageStep
    sources: tuple[LineageStep, ...]

    @property
    def direct(self) -> tuple[LineageStep, ...]:
        """DIRECT sources."""
        return tuple(source for source in self.sources if not source.is_indirect)

    @property
    def indirect(self) -> tuple[LineageStep, ...]:
        """INDIRECT sources."""
        return tuple(source for source in self.sources if source.is_indirect)


def group_by_operation(step: LineageStep) -> list[OperationStep]:
    """Group the sources of a column by operation."""
    groups: dict[str | None, list[LineageStep]] = {}
    for source in step.upstream:
        groups.setdefault(None if source.edge is None else source.edge.run_uuid, []).append(source)
    return [OperationStep(step, tuple(group)) for group in groups.values()]


def find_origins(step: LineageStep) -> Iterator[LineageStep]:
    """Yield the columns without recorded upstream lineage, over DIRECT edges; a tree of one column has none."""
    direct = [source for source in step.upstream if not source.is_indirect]
    if not direct and not step.is_repeated and step.edge is not None:
        yield step
    for source in direct:
        yield from find_origins(source)
