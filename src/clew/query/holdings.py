"""Shared resources of a process that runs queries: index readers, graph caches and the search index."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from clew.errors import ClewError
from clew.home import IndexLocation, LakeLocation
from clew.index.browsing import PageQueries
from clew.index.reader import IndexReader, IndexVersion
from clew.query.facets import lake_has_pending_backfill
from clew.query.graph.asked_columns import LazyColumnGraph
from clew.query.graph.asked_lineage import LazyJobGraph
from clew.query.graph.columns import ColumnGraph, build_column_graph
from clew.query.graph.far import BudgetExceededError
from clew.query.graph.kept import GraphCache, GraphVersion
from clew.query.graph.lens import JobGraphProtocol
from clew.query.graph.lineage import JobGraph, build_job_graph
from clew.query.search.kept import SearchIndex

_MAX_IDLE_READERS = 16
# Readers block only while another process locks the whole file; then fail fast.
_BUSY_TIMEOUT_SECONDS = 1.0
T = TypeVar("T")


class QueryResources:
    """An index, and its lake if there is one, shared by all threads of a process.

    `use_lazy_graphs`: while the cached graphs are stale, traverse by index lookups, up to a limit.
    `is_one_shot`: the process exits after a query or two; lazy graphs, and a search index that may be partial.
    """

    def __init__(
        self,
        index: IndexLocation,
        lake: LakeLocation | None = None,
        *,
        is_one_shot: bool = False,
        use_lazy_graphs: bool = False,
    ) -> None:
        self.index_location = index
        self.lake_location = lake
        self._use_lazy_graphs = is_one_shot or use_lazy_graphs
        self._idle: list[tuple[int, PageQueries]] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._pending_backfill: tuple[IndexVersion, bool] | None = None
        self._job_graphs = GraphCache(
            JobGraph,
            sidecar_path(index, "lineage"),
            build_job_graph,
            IndexReader.job_graph_fingerprint,
            self._open_reader,
        )
        self._column_graphs = GraphCache(
            ColumnGraph,
            sidecar_path(index, "columns"),
            build_column_graph,
            IndexReader.column_graph_fingerprint,
            self._open_reader,
        )
        index_file = index if isinstance(index, Path) else None
        self.search_index = SearchIndex(
            sidecar_path(index, "search"), self._open_reader, index_file, is_one_shot=is_one_shot
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the readers and the search index."""
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for _, reader in idle:
            reader.close()
        self.search_index.close()

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
    def reader(self) -> Iterator[PageQueries]:
        """Acquire a pooled reader with a consistent snapshot of the index."""
        file_id = self._file_id()
        reader = self._acquire(file_id) or self._open_reader()
        try:
            with reader.snapshot():
                yield reader
        except sqlite3.DatabaseError as error:
            reader.close()
            # SQLITE_ERROR is a bug in the query, not a problem of the file.
            if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR:
                raise
            hint = "Try again. If it persists, check which process has the file open, or rebuild the index."
            raise ClewError(f"The index {self.index_location} cannot be read: {error}.", hint=hint) from error
        except BaseException:
            self._release(file_id, reader)
            raise
        self._release(file_id, reader)

    def get_job_graph(self, index: IndexReader) -> tuple[GraphVersion, JobGraph]:
        """Return the job graph and its version."""
        return self._job_graphs.get(index)

    def get_column_graph(self, index: IndexReader) -> tuple[GraphVersion, ColumnGraph]:
        """Return the column graph and its version."""
        return self._column_graphs.get(index)

    def with_job_graph(self, index: IndexReader, query: Callable[[IndexVersion, JobGraphProtocol], T]) -> T:
        """Run a query on the job graph: the cached one, or a lazy one on the index."""
        if self._use_lazy_graphs and not self._job_graphs.is_current(index):
            with suppress(BudgetExceededError):
                return query(index.version(), LazyJobGraph(index))
        graph_version, graph = self.get_job_graph(index)
        return query(graph_version.index_version, graph)

    def with_column_graph(
        self, index: IndexReader, query: Callable[[IndexVersion, ColumnGraph | LazyColumnGraph], T]
    ) -> T:
        """Run a query on the column graph: the cached one, or a lazy one on the index."""
        if self._use_lazy_graphs and not self._column_graphs.is_current(index):
            with suppress(BudgetExceededError):
                return query(index.version(), LazyColumnGraph(index))
        graph_version, graph = self.get_column_graph(index)
        return query(graph_version.index_version, graph)

    def has_pending_backfill(self, index: IndexReader) -> bool | None:
        """Return whether a backfill is pending; None if not checked since the index changed."""
        cached, version = self._pending_backfill, index.version()
        return (
            False if self.lake_location is None else cached[1] if cached is not None and cached[0] == version else None
        )

    def check_pending_backfill(self, index: IndexReader) -> bool:
        """Check the lake for a pending backfill; may be slow."""
        is_pending = self.lake_location is not None and lake_has_pending_backfill(self.lake_location)
        self._pending_backfill = index.version(), is_pending
        return is_pending

    def _open_reader(self) -> PageQueries:
        return PageQueries(self.index_location, busy_seconds=_BUSY_TIMEOUT_SECONDS)

    def _file_id(self) -> int:
        """Return the inode of the index file: a rebuild replaces the file. 0 for a database server."""
        try:
            return self.index_location.stat().st_ino if isinstance(self.index_location, Path) else 0
        except OSError:
            return -1

    def _acquire(self, file_id: int) -> PageQueries | None:
        with self._lock:
            stale = [reader for idle_file_id, reader in self._idle if idle_file_id != file_id]
            self._idle = [pair for pair in self._idle if pair[0] == file_id]
            acquired = self._idle.pop()[1] if self._idle else None
        for reader in stale:
            reader.close()
        return acquired

    def _release(self, file_id: int, reader: PageQueries) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE_READERS and not self._is_closed:
                self._idle.append((file_id, reader))
                return
        reader.close()


def sidecar_path(index: IndexLocation, suffix: str) -> Path:
    """Return the path of a file derived from the index: next to it, or in the data directory."""
    return index.with_name(f"{index.name}.{suffix}") if isinstance(index, Path) else index.folder / f"index.{suffix}"
