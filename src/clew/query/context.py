"""Resources shared by queries: index readers, cached graphs, search index."""

from __future__ import annotations

import sqlite3
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Generic, Self, TypeVar

import msgspec
from msgspec import Struct

from clew.data_dir import IndexLocation, LakeLocation
from clew.errors import ClewError
from clew.index.queries.connection import IndexVersion
from clew.index.queries.reader import IndexReader
from clew.query.entities.aliases import AliasStore
from clew.query.entities.catalog import Catalog, UnindexedAnnotations
from clew.query.entities.facets import PendingFacets, lake_has_pending_backfill
from clew.query.graph.column_graph import ColumnGraph, LazyColumnGraph, build_column_graph
from clew.query.graph.job_graph import BudgetExceededError, JobGraph, LazyJobGraph, LookupBudget, build_job_graph
from clew.query.graph.nodes import ArrayGraph, map_arrays, write_arrays
from clew.query.graph.traversal import ColumnGraphProtocol
from clew.query.search_index import SearchIndex

# A graph with this many edges is built in 0.25 s. Larger ones are rebuilt in the background while the previous graph
# is used, with pauses so that rebuilding uses at most a sixth of a core.
_MAX_SYNC_EDGES = 50_000
_MIN_IDLE_FACTOR = 5


G = TypeVar("G", bound=ArrayGraph)


class GraphVersion(Struct, frozen=True):
    """Progress of the index, and a fingerprint of the rows that make up the graph; equal fingerprints, equal graphs."""

    index_version: IndexVersion
    fingerprint: str


class GraphCache(Generic[G]):
    """Cache of the newest graph of one kind, shared by all threads of a process."""

    def __init__(
        self,
        kind: type[G],
        path: Path,
        build: Callable[[IndexReader], G],
        fingerprint: Callable[[IndexReader], str],
        open_index: Callable[[], IndexReader],
    ) -> None:
        self._kind, self._path, self._build, self._fingerprint, self._open_index = (
            kind,
            path,
            build,
            fingerprint,
            open_index,
        )
        self._lock = threading.Lock()
        self._graph: tuple[GraphVersion, G] | None = None
        self._seconds = 0.0
        self._not_before = 0.0
        self._is_refreshing = False

    def get(self, index: IndexReader) -> tuple[GraphVersion, G]:
        """Return the graph and its version; a large graph may be some seconds behind the index."""
        cached = self._graph
        progress = index.version()
        if cached is not None and cached[0].index_version == progress:
            return cached
        if (
            cached is None
            or cached[0].index_version.identity != progress.identity
            or cached[1].edge_count < _MAX_SYNC_EDGES
        ):
            with self._lock:
                return self._refresh()
        self._refresh_in_background()
        return cached

    def is_current(self, index: IndexReader) -> bool:
        """Check whether the graph of the current index is available in memory or in the file."""
        progress = index.version()
        if self._graph is None or self._graph[0].index_version != progress:
            stored = self._read_file()
            if stored is None or stored[0].index_version != progress:
                return False
            self._graph = stored
        return True

    def _read_file(self) -> tuple[GraphVersion, G] | None:
        mapped = map_arrays(self._path)
        return (
            None
            if mapped is None
            else (msgspec.json.decode(mapped.metadata, type=GraphVersion), self._kind.from_arrays(mapped))
        )

    def _refresh(self) -> tuple[GraphVersion, G]:
        with self._open_index() as index:
            if self.is_current(index) and self._graph is not None:
                return self._graph
            cached, progress = self._graph, index.version()
            started = time.thread_time()
            version = GraphVersion(progress, self._fingerprint(index))
            same = (
                cached
                if cached is not None and _has_same_graph(cached[0], version)
                else self._read_file_if_same(version)
            )
            self._graph = (version, same[1]) if same is not None else (version, self._build_and_store(index, version))
            self._seconds = time.thread_time() - started
        return self._graph

    def _read_file_if_same(self, version: GraphVersion) -> tuple[GraphVersion, G] | None:
        stored = self._read_file()
        return None if stored is None or not _has_same_graph(stored[0], version) else (version, stored[1])

    def _build_and_store(self, index: IndexReader, version: GraphVersion) -> G:
        graph = self._build(index)
        try:
            write_arrays(self._path, graph.arrays(), version)
        except OSError:
            # Read-only processes use the graph without the file.
            return graph
        # The memory-mapped copy uses no private memory.
        stored = self._read_file_if_same(version)
        return graph if stored is None else stored[1]

    def _refresh_in_background(self) -> None:
        with self._lock:
            if self._is_refreshing or time.monotonic() < self._not_before:
                return
            self._is_refreshing = True
        threading.Thread(target=self._run_background_refresh, name="clew-graph", daemon=True).start()

    def _run_background_refresh(self) -> None:
        try:
            # The next query reports an unreadable index.
            with suppress(ClewError):
                self._refresh()
        finally:
            self._not_before = time.monotonic() + _MIN_IDLE_FACTOR * self._seconds
            self._is_refreshing = False


def _has_same_graph(left: GraphVersion, right: GraphVersion) -> bool:
    return (left.index_version.identity, left.fingerprint) == (right.index_version.identity, right.fingerprint)


_MAX_IDLE_READERS = 16
# Readers block only while another process locks the whole file; then fail fast.
_BUSY_TIMEOUT_SECONDS = 1.0
# Entity rows are scattered over the file; mapping it avoids a read call per page.
_MMAP_PRAGMA = f"pragma mmap_size = {256 << 20}"
T = TypeVar("T")


class QueryResources:
    """An index, and its lake if there is one, shared by all threads of a process.

    `use_lazy_graphs`: while the cached graphs are stale, traverse by index lookups, up to a limit.
    `is_one_shot`: the process exits after a query or two; lazy graphs, and a search index that may be partial.
    `namespaces`: prefixes of the namespaces that are shown; all others are hidden. Without prefixes, all are shown.
    """

    def __init__(
        self,
        index: IndexLocation,
        lake: LakeLocation | None = None,
        *,
        is_one_shot: bool = False,
        use_lazy_graphs: bool = False,
        namespaces: Sequence[str] = (),
    ) -> None:
        self.index_location = index
        self.lake_location = lake
        self.namespaces = tuple(namespaces)
        # Caches of a part of the index are private: anything in the data directory is for all users of it.
        cache, self._remove_caches = index, None
        if namespaces:
            folder = tempfile.mkdtemp(prefix="clew-")
            cache, self._remove_caches = (
                Path(folder, "index"),
                weakref.finalize(self, rmtree, folder, ignore_errors=True),
            )
        self._use_lazy_graphs = is_one_shot or use_lazy_graphs
        self.unindexed_annotations = UnindexedAnnotations()
        self._idle: list[tuple[int, Catalog]] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._pending_backfill: tuple[IndexVersion, bool] | None = None
        self._job_graphs = GraphCache(
            JobGraph,
            sidecar_path(cache, "lineage"),
            build_job_graph,
            IndexReader.job_graph_fingerprint,
            self._open_reader,
        )
        self._column_graphs = GraphCache(
            ColumnGraph,
            sidecar_path(cache, "columns"),
            build_column_graph,
            IndexReader.column_graph_fingerprint,
            self._open_reader,
        )
        index_file = index if isinstance(index, Path) and not namespaces else None
        self.search_index = SearchIndex(
            sidecar_path(cache, "search"), self._open_reader, index_file, is_one_shot=is_one_shot
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the readers and the search index."""
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for _, catalog in idle:
            catalog.reader.close()
        self.search_index.close()
        if self._remove_caches is not None:
            self._remove_caches()

    def preload(self) -> None:
        """Load the caches in the background; errors are raised by the first query instead."""
        threading.Thread(target=self._preload, name="clew-preload", daemon=True).start()

    def refresh_caches(self) -> None:
        """Refresh the graph caches and the search index."""
        with self.reader() as index:
            self.get_job_graph(index)
            self.get_column_graph(index)
        self.search_index.refresh()

    def _preload(self) -> None:
        with suppress(ClewError, sqlite3.Error):
            self.refresh_caches()
            with self.reader() as index:
                self.check_pending_backfill(index)

    @contextmanager
    def catalog(self, *, may_block: bool = True) -> Iterator[Catalog]:
        """Acquire a pooled catalog with a consistent snapshot of the index; see `reader`."""
        with self._lease(may_block=may_block) as catalog:
            catalog.refresh()
            yield catalog

    @contextmanager
    def reader(self, *, may_block: bool = True) -> Iterator[IndexReader]:
        """Acquire a pooled reader with a consistent snapshot of the index.

        Unless it `may_block`, a query that must read the lake raises `NeedsThreadError`.
        """
        with self._lease(may_block=may_block) as catalog:
            yield catalog.reader

    @contextmanager
    def _lease(self, *, may_block: bool) -> Iterator[Catalog]:
        file_id = self._file_id()
        catalog = self._acquire(file_id) or self._open_catalog()
        if catalog.reader.pending is not None:
            catalog.reader.pending.start_query(may_block=may_block)
        try:
            with catalog.reader.snapshot():
                yield catalog
        except sqlite3.DatabaseError as error:
            catalog.reader.close()
            # SQLITE_ERROR is a bug in the query, not a problem of the file.
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR:
                raise
            hint = "Try again. If it persists, check which process has the file open, or rebuild the index."
            raise ClewError(f"The index {self.index_location} cannot be read: {error}.", hint=hint) from error
        except BaseException:
            self._release(file_id, catalog)
            raise
        self._release(file_id, catalog)

    def get_job_graph(self, index: IndexReader) -> tuple[GraphVersion, JobGraph]:
        """Return the job graph and its version."""
        return self._job_graphs.get(index)

    def get_column_graph(self, index: IndexReader) -> tuple[GraphVersion, ColumnGraph]:
        """Return the column graph and its version."""
        return self._column_graphs.get(index)

    def with_job_graph(self, index: IndexReader, query: Callable[[IndexVersion, JobGraph | LazyJobGraph], T]) -> T:
        """Run a query on the job graph: the cached one, or a lazy one on the index."""
        if self._use_lazy_graphs and not self._job_graphs.is_current(index):
            with suppress(BudgetExceededError):
                return query(index.version(), LazyJobGraph(index, LookupBudget()))
        graph_version, graph = self.get_job_graph(index)
        return query(graph_version.index_version, graph)

    def with_column_graph(
        self, index: IndexReader, query: Callable[[IndexVersion, ColumnGraphProtocol], T], as_of: int | None = None
    ) -> T:
        """Run a query on the column graph: the cached one, or a lazy one on the index, which can be as of a time."""
        if as_of is not None:
            return query(index.version(), LazyColumnGraph(index, as_of))
        if self._use_lazy_graphs and not self._column_graphs.is_current(index):
            with suppress(BudgetExceededError):
                return query(index.version(), LazyColumnGraph(index, budget=LookupBudget()))
        graph_version, graph = self.get_column_graph(index)
        return query(graph_version.index_version, graph)

    def has_pending_backfill(self, index: IndexReader) -> bool | None:
        """Return whether a backfill is pending; None if not checked since the index changed."""
        lake = self.lake_location
        if lake is None or (isinstance(lake, Path) and not lake.exists()):
            return False
        cached = self._pending_backfill
        return cached[1] if cached is not None and cached[0] == index.version() else None

    def check_pending_backfill(self, index: IndexReader) -> bool:
        """Check the lake for a pending backfill; may be slow."""
        is_pending = False
        # An unreachable lake is no reason to refuse what is in the index.
        with suppress(ClewError, OSError):
            is_pending = self.lake_location is not None and lake_has_pending_backfill(self.lake_location, index)
        self._pending_backfill = index.version(), is_pending
        return is_pending

    def _open_catalog(self) -> Catalog:
        """Open a reader for answers; readers of graphs and of the search index need no pending facets."""
        reader = self._open_reader()
        # The changes of events that await a backfill are not limited to namespaces.
        if self.lake_location is not None and not self.namespaces:
            reader.pending = PendingFacets(self.lake_location, self)
        return Catalog(reader, self.unindexed_annotations, self.lake_location, AliasStore(self.index_location))

    def _open_reader(self) -> IndexReader:
        reader = IndexReader(self.index_location, _BUSY_TIMEOUT_SECONDS, self.namespaces)
        if isinstance(self.index_location, Path):
            reader.query(_MMAP_PRAGMA)
        return reader

    def _file_id(self) -> int:
        """Return the inode of the index file: a rebuild replaces the file. 0 for a database server."""
        try:
            return self.index_location.stat().st_ino if isinstance(self.index_location, Path) else 0
        except OSError:
            return -1

    def _acquire(self, file_id: int) -> Catalog | None:
        with self._lock:
            stale = [catalog for idle_file_id, catalog in self._idle if idle_file_id != file_id]
            self._idle = [pair for pair in self._idle if pair[0] == file_id]
            acquired = self._idle.pop()[1] if self._idle else None
        for catalog in stale:
            catalog.reader.close()
        return acquired

    def _release(self, file_id: int, catalog: Catalog) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE_READERS and not self._is_closed:
                self._idle.append((file_id, catalog))
                return
        catalog.reader.close()


def sidecar_path(index: IndexLocation, suffix: str) -> Path:
    """Return the path of a file derived from the index: next to it, or in the data directory."""
    return index.with_name(f"{index.name}.{suffix}") if isinstance(index, Path) else index.folder / f"index.{suffix}"
