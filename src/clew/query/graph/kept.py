"""In-process cache of a graph, backed by a file next to the index and refreshed when the index changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec
from msgspec import Struct

from clew.errors import ClewError
from clew.index.reader import IndexReader, IndexVersion
from clew.query.graph.stored import MappedArrays, map_arrays, write_arrays

# A graph with this many edges is built in 0.25 s. Larger ones are rebuilt in the background while the previous graph
# is used, with pauses so that rebuilding uses at most a sixth of a core.
_MAX_SYNC_EDGES = 50_000
_MIN_IDLE_FACTOR = 5


class StorableGraph(Protocol):
    """A graph that can be written to a file of arrays."""

    @property
    def edge_count(self) -> int:
        """Number of edges."""

    def arrays(self) -> dict[str, Any]:
        """Return the arrays to write."""

    @classmethod
    def from_arrays(cls, mapped: MappedArrays) -> Self:
        """Create the graph from mapped arrays."""


G = TypeVar("G", bound=StorableGraph)


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
