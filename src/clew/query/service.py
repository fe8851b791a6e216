"""Facade of the query layer: lineage, entities and notebook sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, Self

from clew.data_dir import IndexLocation, LakeLocation
from clew.errors import UsageError
from clew.index.queries.reader import IndexReader
from clew.query.context import QueryResources
from clew.query.diff import RunDiff, VersionDiff, diff_runs, diff_versions
from clew.query.entities.datasets import describe_dataset
from clew.query.entities.model import CatalogDataset, CatalogJob, CatalogRun
from clew.query.entities.runs import JobRunSummary, RunSelection, describe_job, describe_run, list_job_runs
from clew.query.graph.nodes import Column, Node
from clew.query.graph.traversal import Direction
from clew.query.graph.view import JobGraphView, ViewOptions
from clew.query.lineage import (
    ColumnPath,
    FieldTraversal,
    ImpactResult,
    LineageResult,
    Neighbourhood,
    PathResult,
    TraversalLimits,
    analyze_impact,
    find_column_path,
    find_neighbourhood,
    find_node_path,
    traverse_fields,
    traverse_from_column,
    traverse_from_run,
    traverse_nodes,
)
from clew.query.model import DatasetName, LineageStep, NotebookRun, SessionSummary
from clew.query.names import ResolvedName, require_run, resolve_column, resolve_dataset, resolve_name, resolve_run
from clew.query.notebooks.reports import NotebookDocumentation, SessionResources, document_notebook, summarize_resources
from clew.query.notebooks.session import find_session_id, get_notebook_run, list_sessions
from clew.query.quality import DatasetDrift, compute_drift
from clew.query.search import Hits, search_entities
from clew.query.search_index import EntityKind
from clew.query.upstream import MAX_DEPTH, trace_upstream

_DEFAULT_LIMITS: Final = TraversalLimits()
_DEFAULT_VIEW: Final = ViewOptions()


class LineageService:
    """Queries of the CLI, the HTTP APIs, the web UI and MCP.

    Each query reads one snapshot of the index: that of `index`, or else a new one. It resolves names once, and accepts
    names that are resolved already.
    """

    def __init__(self, resources: QueryResources, index: IndexReader | None = None) -> None:
        self._resources, self._index = resources, index

    @classmethod
    def open(cls, index: IndexLocation, lake: LakeLocation | None = None, *, is_one_shot: bool = True) -> Self:
        """Open an index; the graphs built for it are cached in files next to it."""
        # Single queries do not wait until the complete graph is built, even in a long-lived process.
        return cls(QueryResources(index, lake, is_one_shot=is_one_shot, use_lazy_graphs=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def traverse(
        self,
        name: str | ResolvedName,
        direction: Direction = "both",
        limits: TraversalLimits = _DEFAULT_LIMITS,
        view_options: ViewOptions = _DEFAULT_VIEW,
    ) -> LineageResult:
        """Traverse the lineage of a dataset, column, job or run."""
        with self._reader() as index:
            return self._traverse(index, _resolve(index, name), direction, limits, view_options)

    def upstream(
        self, name: str, limits: TraversalLimits = _DEFAULT_LIMITS, view_options: ViewOptions = _DEFAULT_VIEW
    ) -> LineageStep | LineageResult:
        """Trace a column upstream with the code of each step; otherwise traverse upstream."""
        with self._reader() as index:
            resolved = resolve_name(index, name)
            if resolved.kind != "column":
                return self._traverse(index, resolved, "upstream", limits, view_options)
            return trace_upstream(
                index, resolved.target, depth=limits.depth, is_collapsed=not view_options.include_frames
            )

    def trace_column(self, name: str, *, depth: int = MAX_DEPTH, is_collapsed: bool = True) -> LineageStep:
        """Trace `dataset.column` upstream; if collapsed, a method chain is one step."""
        with self._reader() as index:
            dataset, column = resolve_column(index, name)
            start = Column(dataset.namespace, dataset.name, column)
            return trace_upstream(index, start, depth=depth, is_collapsed=is_collapsed)

    def _traverse(
        self,
        index: IndexReader,
        start: ResolvedName,
        direction: Direction,
        limits: TraversalLimits,
        view_options: ViewOptions,
    ) -> LineageResult:
        if start.kind == "run":
            return traverse_from_run(index, start, direction, limits, view_options)
        if start.kind == "column":
            frames = view_options.include_frames
            return self._resources.with_column_graph(
                index,
                lambda version, graph: traverse_from_column(
                    graph, start.target, direction, limits, version, include_frames=frames
                ),
                view_options.as_of,
            )
        return self._resources.with_job_graph(
            index,
            lambda version, graph: traverse_nodes(
                JobGraphView(graph, view_options), start.node, direction, limits, version
            ),
        )

    def find_path(self, start: str, end: str, view_options: ViewOptions = _DEFAULT_VIEW) -> PathResult | ColumnPath:
        """Find a shortest path between two columns, or between two jobs or datasets, in either direction."""
        with self._reader() as index:
            ends = resolve_name(index, start), resolve_name(index, end)
            kinds = {resolved.kind for resolved in ends}
            if kinds == {"column"}:
                columns, frames = (ends[0].target, ends[1].target), view_options.include_frames
                return self._resources.with_column_graph(
                    index, lambda _, graph: find_column_path(graph, *columns, include_frames=frames), view_options.as_of
                )
            if kinds & {"column", "run"}:
                raise UsageError(
                    f"Cannot find a path between {start} ({ends[0].kind}) and {end} ({ends[1].kind}).",
                    hint="Pass two columns, or two datasets or jobs.",
                )
            return self._find_node_path(index, ends[0].node, ends[1].node, view_options)

    def find_node_path(self, start: Node, end: Node, view_options: ViewOptions) -> PathResult:
        """Find a shortest path between two jobs or datasets, in either direction."""
        with self._reader() as index:
            return self._find_node_path(index, start, end, view_options)

    def _find_node_path(self, index: IndexReader, start: Node, end: Node, view_options: ViewOptions) -> PathResult:
        return self._resources.with_job_graph(
            index, lambda version, graph: find_node_path(JobGraphView(graph, view_options), start, end, version)
        )

    def analyze_impact(
        self,
        name: str | ResolvedName,
        limits: TraversalLimits = _DEFAULT_LIMITS,
        *,
        include_frames: bool = False,
        as_of: int | None = None,
    ) -> ImpactResult:
        """Find the datasets affected by a change of a column or dataset, by the lineage as of a time."""
        with self._reader() as index:
            target = _resolve(index, name).target
            return self._resources.with_column_graph(
                index,
                lambda version, graph: analyze_impact(graph, target, limits, version, include_frames=include_frames),
                as_of,
            )

    def find_neighbourhood(self, node: Node, job_hops: int, limit: int) -> Neighbourhood | None:
        """Find the jobs within some hops from job to job, and their inputs and outputs; None without lineage."""
        with self._reader() as index:
            return find_neighbourhood(self._resources.get_job_graph(index)[1], node, job_hops, limit)

    def traverse_fields(
        self, targets: Iterable[Column], direction: Direction, limits: TraversalLimits
    ) -> FieldTraversal:
        """Traverse from columns, or from all columns of datasets, to columns, without dataset-level nodes."""
        with self._reader() as index:
            return traverse_fields(self._resources.get_column_graph(index)[1], targets, direction, limits)

    def diff_runs(self, left: str, right: str) -> RunDiff:
        """Compare two runs or two notebook sessions; with a lake, the code in the facets of runs, too."""
        with self._reader() as index:
            runs = resolve_run(index, left), resolve_run(index, right)
            return diff_runs(index, *runs, self._resources.lake_location)

    def diff_versions(
        self, dataset: str | DatasetName, left: str | None = None, right: str | None = None
    ) -> VersionDiff:
        """Compare two versions of a dataset, by default the last two."""
        with self._reader() as index:
            resolved = resolve_dataset(index, dataset) if isinstance(dataset, str) else dataset
            return diff_versions(index, resolved, left, right)

    def search(
        self,
        text: str,
        *,
        kind: EntityKind | None = None,
        namespace: str | None = None,
        limit: int,
        offset: int = 0,
        wait_for_index: bool = False,
    ) -> Hits:
        """Search jobs, datasets and runs; `wait_for_index` updates the search index first."""
        if wait_for_index:
            self._resources.search_index.refresh()
        with self._reader() as index:
            search_index = self._resources.search_index
            return search_entities(
                search_index, index, text, kind=kind, namespace=namespace, limit=limit, offset=offset
            )

    def resolve_run_and_session(self, name: str) -> tuple[str, str | None]:
        """Resolve a run id, and its session id if the run is a complete notebook session."""
        with self._reader() as index:
            run = resolve_run(index, name)
            session = require_run(index, run).session_id
            session_run = None if session is None else index.session_run(session)
            return run, session if session_run is not None and session_run["run_uuid"] == run else None

    def describe(self, name: str) -> CatalogDataset | CatalogJob | CatalogRun:
        """Load a dataset, job or run; for a column, of its dataset."""
        with self._reader() as index:
            resolved = resolve_name(index, name)
            if resolved.kind == "run":
                return describe_run(index, resolved.name)
            describe_node = describe_job if resolved.kind == "job" else describe_dataset
            return describe_node(index, (resolved.namespace, resolved.name))

    def list_job_runs(
        self, selection: RunSelection, *, since: datetime | None = None, limit: int
    ) -> list[JobRunSummary]:
        """List runs of any job: recent, failed or slowest."""
        with self._reader() as index:
            return list_job_runs(index, selection, since, limit)

    def compute_drift(self, dataset: str) -> DatasetDrift:
        """Compute how a dataset changed between runs."""
        with self._reader() as index:
            return compute_drift(index, resolve_dataset(index, dataset))

    def list_sessions(self) -> list[SessionSummary]:
        """List notebook sessions, newest first."""
        with self._reader() as index:
            return list_sessions(index)

    def is_session(self, name: str) -> bool:
        """Return whether a name is the id of a notebook session."""
        with self._reader() as index:
            return bool(index.cells(name))

    def get_session(self, session_id: str) -> NotebookRun:
        """Load a notebook session."""
        with self._reader() as index:
            return get_notebook_run(index, session_id)

    def find_session(self, name: str | None = None) -> NotebookRun:
        """Load a session, or the latest session of a notebook; without a name, the latest of all."""
        with self._reader() as index:
            return get_notebook_run(index, find_session_id(index, name))

    def summarize_resources(self, name: str | None = None, *, limit: int) -> list[SessionResources]:
        """Return the resources of sessions, newest first, or of one session or notebook."""
        with self._reader() as index:
            if name is None:
                sessions = [run.session_id for run in list_sessions(index, limit)]
            else:
                sessions = [find_session_id(index, name)]
            return [summarize_resources(get_notebook_run(index, session)) for session in sessions]

    def document_notebook(self, name: str | None = None) -> NotebookDocumentation:
        """Document a notebook by its latest session, or a given session."""
        with self._reader() as index:
            return document_notebook(index, name)

    @contextmanager
    def _reader(self) -> Iterator[IndexReader]:
        if self._index is not None:
            yield self._index
            return
        with self._resources.reader() as index:
            yield index


def _resolve(index: IndexReader, name: str | ResolvedName) -> ResolvedName:
    return resolve_name(index, name) if isinstance(name, str) else name
