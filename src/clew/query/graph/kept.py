"""A graph that stays in the process: read from a file beside the index, made anew when the index has changed."""

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
from clew.index.reader import IndexReader, Progress
from clew.query.graph.stored import StoredArrays, store, stored

# A graph of so many edges is made in a quarter of a second. A larger one is made while the one before still answers,
# and a core is kept busy with that for at most a sixth of the time.
_FEW_EDGES = 50_000
_PAUSES = 5


class Graph(Protocol):
    """A graph that can be stored."""

    @property
    def edge_count(self) -> int:
        """How many edges there are."""

    def arrays(self) -> dict[str, Any]:
        """What there is to store."""

    @classmethod
    def stored(cls, stored: StoredArrays) -> Self:
        """The graph of a file."""


G = TypeVar("G", bound=Graph)


class Mark(Struct, frozen=True):
    """How far an index had come, and what of it makes the graph: while `content` is the same, so is the graph."""

    progress: Progress
    content: str


class KeptGraph(Generic[G]):
    """The newest graph of its kind, for all threads of a process."""

    def __init__(
        self,
        kind: type[G],
        path: Path,
        build: Callable[[IndexReader], G],
        content: Callable[[IndexReader], str],
        open_index: Callable[[], IndexReader],
    ) -> None:
        self._kind, self._path, self._build, self._content, self._open = kind, path, build, content, open_index
        self._lock = threading.Lock()
        self._graph: tuple[Mark, G] | None = None
        self._seconds = 0.0
        self._not_before = 0.0
        self._is_busy = False

    def at(self, index: IndexReader) -> tuple[Mark, G]:
        """The graph of an index, and how far it goes: one that is large may be some seconds behind."""
        known = self._graph
        progress = index.progress()
        if known is not None and known[0].progress == progress:
            return known
        if known is None or known[0].progress.identity != progress.identity or known[1].edge_count < _FEW_EDGES:
            with self._lock:
                return self._renewed()
        self._renew_aside()
        return known

    def is_at(self, index: IndexReader) -> bool:
        """Whether the graph of this state of the index is there already, in memory or in the file."""
        progress = index.progress()
        if self._graph is None or self._graph[0].progress != progress:
            found = self._as_stored()
            if found is None or found[0].progress != progress:
                return False
            self._graph = found
        return True

    def _as_stored(self) -> tuple[Mark, G] | None:
        found = stored(self._path)
        return None if found is None else (msgspec.json.decode(found.about, type=Mark), self._kind.stored(found))

    def _renewed(self) -> tuple[Mark, G]:
        with self._open() as index:
            if self.is_at(index) and self._graph is not None:
                return self._graph
            known, progress = self._graph, index.progress()
            began = time.thread_time()
            mark = Mark(progress, self._content(index))
            same = known if known is not None and _is_same(known[0], mark) else self._from_file(mark)
            self._graph = (mark, same[1]) if same is not None else (mark, self._built(index, mark))
            self._seconds = time.thread_time() - began
        return self._graph

    def _from_file(self, mark: Mark) -> tuple[Mark, G] | None:
        found = self._as_stored()
        return None if found is None or not _is_same(found[0], mark) else (mark, found[1])

    def _built(self, index: IndexReader, mark: Mark) -> G:
        graph = self._build(index)
        try:
            store(self._path, graph.arrays(), mark)
        except OSError:
            # Whoever may only read does without the file.
            return graph
        # The stored one takes no memory of the process's own.
        found = self._from_file(mark)
        return graph if found is None else found[1]

    def _renew_aside(self) -> None:
        with self._lock:
            if self._is_busy or time.monotonic() < self._not_before:
                return
            self._is_busy = True
        threading.Thread(target=self._renew_in_thread, name="clew-graph", daemon=True).start()

    def _renew_in_thread(self) -> None:
        try:
            # An index that cannot be read is told to whoever asks next.
            with suppress(ClewError):
                self._renewed()
        finally:
            self._not_before = time.monotonic() + _PAUSES * self._seconds
            self._is_busy = False


def _is_same(one: Mark, other: Mark) -> bool:
    return (one.progress.identity, one.content) == (other.progress.identity, other.content)
