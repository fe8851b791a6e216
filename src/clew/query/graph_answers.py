"""Lineage queries by name instead of by id."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from msgspec import Struct

from clew.home import IndexLocation, LakeLocation
from clew.index.reader import IndexReader
from clew.query.column_paths import shortest_column_path
from clew.query.diff import RunDiff, VersionDiff, diff_runs, diff_versions
from clew.query.documents import (
    DatasetDetails,
    JobDetails,
    RunDetails,
    describe_dataset,
    describe_job,
    describe_run,
)
from clew.query.graph.lens import ViewOptions
from clew.query.graph.nodes import Column
from clew.query.graph.walk import Direction
from clew.query.holdings import QueryResources
from clew.query.lineage import (
    ImpactResult,
    LineageEdge,
    LineageResult,
    PathResult,
    TraversalLimits,
    analyze_impact,
    find_path,
    traverse_lineage,
)
from clew.query.meant import ResolvedName, resolve_column, resolve_name, resolve_run
from clew.query.names import resolve_dataset
from clew.query.node_ids import resolve_node_id
from clew.query.run_walk import require_run
from clew.query.search.hits import Hits, search_entities

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

    def describe(self, name: str) -> DatasetDetails | JobDetails | RunDetails:
        """Load the details of a dataset, job or run; for a column, of its dataset."""
        with self._reader() as index:
            resolved = resolve_name(index, name)
            if resolved.kind == "run":
                return describe_run(index, resolved.id.partition(":")[2])
            node = resolve_node_id(index, resolved.id)
            describe_node = describe_job if node.kind == "job" else describe_dataset
            return describe_node(index, node.namespace, node.name)

    def _resolve_column(self, index: IndexReader, name: str) -> Column:
        dataset, column = resolve_column(index, name)
        return Column(dataset.namespace, dataset.name, column)

    @contextmanager
    def _reader(self) -> Iterator[IndexReader]:
        with self._resources.reader() as index:
            yield index
