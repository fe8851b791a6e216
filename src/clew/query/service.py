"""Facades of the query layer: lineage, entities and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import Self

from msgspec import Struct

from clew.data_dir import IndexLocation, LakeLocation
from clew.errors import UsageError
from clew.index.queries.lists import PageQueries
from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.diff import RunDiff, VersionDiff, diff_runs, diff_versions
from clew.query.entities.datasets import describe_dataset
from clew.query.entities.model import CatalogDataset, CatalogJob, CatalogRun
from clew.query.entities.runs import JobRunSummary, RunSelection, describe_job, describe_run, list_job_runs
from clew.query.graph.nodes import Column
from clew.query.graph.traversal import Direction, require_run
from clew.query.graph.view import ViewOptions
from clew.query.lineage import (
    ImpactResult,
    LineageEdge,
    LineageResult,
    PathResult,
    TraversalLimits,
    analyze_impact,
    find_path,
    shortest_column_path,
    traverse_lineage,
)
from clew.query.model import LineageStep, NotebookRun, SessionSummary
from clew.query.names import ResolvedName, resolve_column, resolve_dataset, resolve_name, resolve_node_id, resolve_run
from clew.query.notebooks.reports import NotebookDocumentation, SessionResources, document_notebook, summarize_resources
from clew.query.notebooks.session import get_notebook_run, latest_session_id, list_sessions
from clew.query.quality import DatasetDrift, compute_drift
from clew.query.search import Hits, search_entities
from clew.query.upstream import MAX_DEPTH, collapse_frames, trace_upstream


class NotebookService:
    """Queries on notebook sessions of one index."""

    def __init__(self, index: IndexLocation | IndexReader) -> None:
        self._index = index if isinstance(index, IndexReader) else IndexReader(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._index.close()

    def runs(self) -> list[SessionSummary]:
        """List notebook sessions, newest first."""
        return list_sessions(self._index)

    def job_runs(self, selection: RunSelection, *, since: datetime | None = None, limit: int) -> list[JobRunSummary]:
        """List runs of any job: recent, failed or slowest."""
        return list_job_runs(self._index, selection, since, limit)

    def resources(self, session_id: str | None = None, *, limit: int) -> list[SessionResources]:
        """Return the resources of sessions, newest first, or of one session."""
        sessions = [session_id] if session_id else [run.session_id for run in list_sessions(self._index, limit)]
        return [summarize_resources(get_notebook_run(self._index, session)) for session in sessions]

    def drift(self, dataset: str) -> DatasetDrift:
        """Compute the drift of a dataset."""
        return compute_drift(self._index, resolve_dataset(self._index, dataset))

    def documentation(self, name: str | None = None) -> NotebookDocumentation:
        """Document a notebook by its latest session, or a given session."""
        return document_notebook(self._index, name)

    def latest_run(self) -> NotebookRun | None:
        """Return the session that started last."""
        session = latest_session_id(self._index)
        return None if session is None else get_notebook_run(self._index, session)

    def is_session(self, name: str) -> bool:
        """Return whether a name is the id of a notebook session."""
        return bool(self._index.cells(name))

    def run(self, session_id: str) -> NotebookRun:
        """Load a notebook session."""
        return get_notebook_run(self._index, session_id)

    def upstream(self, column: str, *, depth: int = MAX_DEPTH, is_collapsed: bool = True) -> LineageStep:
        """Trace `dataset.column` upstream; if collapsed, a method chain is one step."""
        if depth < 1:
            raise UsageError(f"Invalid depth: {depth}.", hint="Pass a depth of 1 or more.")
        dataset, name = resolve_column(self._index, column)
        step = trace_upstream(self._index, dataset, name, depth=depth)
        return collapse_frames(step) if is_collapsed else step

    def indexed_at(self) -> str | None:
        """Return when the last batch was indexed."""
        return self._index.meta("indexed_at")


_MAX_COLUMNS = 10_000


class ColumnPath(Struct, frozen=True, rename="camel"):
    """A shortest path between two columns along DIRECT edges; no edges if there is none."""

    start: str
    end: str
    edges: tuple[LineageEdge, ...]
    is_found: bool


class LineageService:
    """Lineage queries on one index; the graphs it builds are cached in files next to the index."""

    def __init__(self, index: IndexLocation, lake: LakeLocation | None = None, *, is_one_shot: bool = True) -> None:
        # Single queries do not wait until the complete graph is built, even in a long-lived process.
        self._resources = QueryResources(index, lake, is_one_shot=is_one_shot, use_lazy_graphs=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._resources.close()

    def resolve(self, name: str) -> ResolvedName:
        """Resolve a name to a node."""
        with self._reader() as index:
            return resolve_name(index, name)

    def traverse(
        self,
        name: str,
        direction: Direction,
        limits: TraversalLimits | None = None,
        view_options: ViewOptions | None = None,
    ) -> LineageResult:
        """Traverse the lineage of a dataset, column, job or run."""
        with self._reader() as index:
            resolved = resolve_name(index, name)
            return traverse_lineage(
                self._resources, index, resolved.id, resolved.column, direction, limits, view_options
            )

    def shortest_path(self, start: str, end: str, view_options: ViewOptions | None = None) -> PathResult:
        """Find a shortest path between two jobs or datasets."""
        with self._reader() as index:
            start_id, end_id = resolve_name(index, start).id, resolve_name(index, end).id
            return find_path(self._resources, index, start_id, end_id, view_options)

    def shortest_column_path(self, start: str, end: str, view_options: ViewOptions | None = None) -> ColumnPath:
        """Find a shortest DIRECT path between two columns, in either direction."""
        with self._reader() as index:
            columns = [self._resolve_column(index, name) for name in (start, end)]
            for source, target in (columns, reversed(columns)):
                node = f"dataset:{source.namespace}:{source.dataset}"
                limits = TraversalLimits(100, _MAX_COLUMNS)
                downstream = traverse_lineage(
                    self._resources, index, node, source.column, "downstream", limits, view_options
                )
                edges = shortest_column_path(downstream, target.id)
                if edges is not None:
                    return ColumnPath(source.id, target.id, edges, is_found=True)
        return ColumnPath(columns[0].id, columns[1].id, (), is_found=False)

    def analyze_impact(
        self, name: str, limits: TraversalLimits | None = None, *, include_frames: bool = False
    ) -> ImpactResult:
        """Find the datasets affected by a change of a column or dataset."""
        with self._reader() as index:
            resolved = resolve_name(index, name)
            return analyze_impact(
                self._resources, index, resolved.id, resolved.column, limits, include_frames=include_frames
            )

    def diff_runs(self, left: str, right: str) -> RunDiff:
        """Compare two runs or two notebook sessions."""
        with self._reader() as index:
            runs = resolve_run(index, left), resolve_run(index, right)
            return diff_runs(index, *runs)

    def diff_versions(self, dataset: str, left: str | None = None, right: str | None = None) -> VersionDiff:
        """Compare two versions of a dataset, by default the last two."""
        with self._reader() as index:
            return diff_versions(index, resolve_dataset(index, dataset), left, right)

    def search(self, text: str, *, limit: int, offset: int = 0, wait_for_index: bool = False) -> Hits:
        """Search jobs, datasets and runs; `wait_for_index` updates the search index first."""
        if wait_for_index:
            self._resources.search_index.refresh()
        with self._reader() as index:
            return search_entities(self._resources.search_index, index, text, limit=limit, offset=offset)

    def resolve_run_and_session(self, name: str) -> tuple[str, str | None]:
        """Resolve a run id, and its session id if the run is a complete notebook session."""
        with self._reader() as index:
            run = resolve_run(index, name)
            session = require_run(index, run)["session_id"]
            session_run = None if session is None else index.session_run(session)
            return run, session if session_run is not None and session_run["run_uuid"] == run else None

    def describe(self, name: str) -> CatalogDataset | CatalogJob | CatalogRun:
        """Load a dataset, job or run; for a column, of its dataset."""
        with self._reader() as index:
            resolved = resolve_name(index, name)
            if resolved.kind == "run":
                return describe_run(index, resolved.id.partition(":")[2])
            node = resolve_node_id(index, resolved.id)
            describe_node = describe_job if node.kind == "job" else describe_dataset
            return describe_node(index, (node.namespace, node.name))

    def _resolve_column(self, index: IndexReader, name: str) -> Column:
        dataset, column = resolve_column(index, name)
        return Column(dataset.namespace, dataset.name, column)

    @contextmanager
    def _reader(self) -> Iterator[PageQueries]:
        with self._resources.reader() as index:
            yield index
