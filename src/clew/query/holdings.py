"""What a process that answers many questions keeps open: readers of the index, the graphs and the search file."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from clew.errors import ClewError
from clew.home import LakePlace, Place
from clew.index.browsing import Browser
from clew.index.reader import IndexReader, Progress
from clew.query.facets import has_raw_events
from clew.query.graph.asked_columns import AskedColumns
from clew.query.graph.asked_lineage import AskedLineage
from clew.query.graph.columns import ColumnGraph, column_graph
from clew.query.graph.far import TooFarError
from clew.query.graph.kept import KeptGraph, Mark
from clew.query.graph.lens import Lineages
from clew.query.graph.lineage import LineageGraph, lineage_graph
from clew.query.search.kept import SearchFile

_MOST_IDLE = 16
# Readers wait for nobody but who has the whole file: a caller is told rather than kept waiting.
_BUSY_SECONDS = 1.0
A = TypeVar("A")


class Holdings:
    """An index, and the lake beside it if there is one, for all threads of a process.

    One that steps makes no graph for a question that does not go far: while what is kept is behind, it asks the index
    step by step. One that is brief answers a question or two and ends: it steps, and searches what can be had at once.
    """

    def __init__(
        self, index: Place, lake: LakePlace | None = None, *, is_brief: bool = False, is_stepping: bool = False
    ) -> None:
        self.place = index
        self.lake = lake
        self._is_stepping = is_brief or is_stepping
        self._idle: list[tuple[int, Browser]] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._raw: tuple[Progress, bool] | None = None
        self._lineage = KeptGraph(
            LineageGraph, beside(index, "lineage"), lineage_graph, IndexReader.lineage_content, self._opened
        )
        self._columns = KeptGraph(
            ColumnGraph, beside(index, "columns"), column_graph, IndexReader.column_content, self._opened
        )
        index_file = index if isinstance(index, Path) else None
        self.search_file = SearchFile(beside(index, "search"), self._opened, index_file, is_brief=is_brief)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            idle, self._idle, self._is_closed = self._idle, [], True
        for _, reader in idle:
            reader.close()
        self.search_file.close()

    def warm(self) -> None:
        """Load what the first questions will need, in the background; what is wrong is told to whoever asks."""
        threading.Thread(target=self._load, name="clew-warm", daemon=True).start()

    def renew(self) -> None:
        """Bring all that is kept beside the index up to date."""
        with self.reader() as index:
            self.lineage(index)
            self.columns(index)
        self.search_file.refresh()

    def _load(self) -> None:
        with suppress(ClewError, sqlite3.Error):
            self.renew()
            with self.reader() as index:
                self.look_for_raw_events(index)

    @contextmanager
    def reader(self) -> Iterator[Browser]:
        """A reader for one question, which sees one state of the index; given back, it serves the next."""
        file = self._file()
        reader = self._taken(file) or self._opened()
        try:
            with reader.snapshot():
                yield reader
        except sqlite3.DatabaseError as fault:
            reader.close()
            # A query that is wrong is a fault of ours, and not of the file.
            if getattr(fault, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR:
                raise
            hint = "Ask again in a moment. If it stays so, look at what else has the file open, or rebuild the index."
            raise ClewError(f"The index {self.place} cannot be read now: {fault}.", hint=hint) from fault
        except BaseException:
            self._give_back(file, reader)
            raise
        self._give_back(file, reader)

    def lineage(self, index: IndexReader) -> tuple[Mark, LineageGraph]:
        """The graph of jobs and datasets, and how far it goes."""
        return self._lineage.at(index)

    def columns(self, index: IndexReader) -> tuple[Mark, ColumnGraph]:
        """The graph of columns, and how far it goes."""
        return self._columns.at(index)

    def ask_lineage(self, index: IndexReader, question: Callable[[Progress, Lineages], A]) -> A:
        """Put a question to the graph of jobs and datasets: the one that is kept, or the index itself."""
        if self._is_stepping and not self._lineage.is_at(index):
            with suppress(TooFarError):
                return question(index.progress(), AskedLineage(index))
        mark, graph = self.lineage(index)
        return question(mark.progress, graph)

    def ask_columns(self, index: IndexReader, question: Callable[[Progress, ColumnGraph | AskedColumns], A]) -> A:
        """Put a question to the graph of columns, likewise."""
        if self._is_stepping and not self._columns.is_at(index):
            with suppress(TooFarError):
                return question(index.progress(), AskedColumns(index))
        mark, graph = self.columns(index)
        return question(mark.progress, graph)

    def has_raw_events(self, index: IndexReader) -> bool | None:
        """Whether the lake has facets that the index has not; None if nobody has looked since the index has changed."""
        known, progress = self._raw, index.progress()
        return False if self.lake is None else known[1] if known is not None and known[0] == progress else None

    def look_for_raw_events(self, index: IndexReader) -> bool:
        """Look, however long it takes."""
        found = self.lake is not None and has_raw_events(self.lake)
        self._raw = index.progress(), found
        return found

    def _opened(self) -> Browser:
        return Browser(self.place, busy_seconds=_BUSY_SECONDS)

    def _file(self) -> int:
        """Which file it is: an index that is built anew takes the place of the one before. A database stays."""
        try:
            return self.place.stat().st_ino if isinstance(self.place, Path) else 0
        except OSError:
            return -1

    def _taken(self, file: int) -> Browser | None:
        with self._lock:
            old = [reader for kept, reader in self._idle if kept != file]
            self._idle = [pair for pair in self._idle if pair[0] == file]
            taken = self._idle.pop()[1] if self._idle else None
        for reader in old:
            reader.close()
        return taken

    def _give_back(self, file: int, reader: Browser) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE and not self._is_closed:
                self._idle.append((file, reader))
                return
        reader.close()


def beside(index: Place, what: str) -> Path:
    """The file in which something made of an index is kept: beside it, or in the folder of the home."""
    return index.with_name(f"{index.name}.{what}") if isinstance(index, Path) else index.folder / f"index.{what}"
