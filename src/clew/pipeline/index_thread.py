"""Asynchronous index writer: a batch is written to the index while the next one is processed."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from clew.errors import ClewError
from clew.index.changes import ChangeSet
from clew.index.sink import IndexWriter
from clew.pipeline.faults import RETRY_HINT
from clew.pipeline.memory import trim_heap


class AsyncIndexWriter:
    """Applies batches in a thread. A context manager: on exit, all batches are written."""

    def __init__(self, index: IndexWriter) -> None:
        self._index = index
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="clew-index")
        self._pending: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.flush()
            self._index.release_memory()
            trim_heap()
        finally:
            self._thread.shutdown()

    def apply(self, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet] = ()) -> None:
        """Apply a batch in the background after all previous ones; see `IndexWriter.apply`."""
        self.flush()
        self._pending = self._thread.submit(self._apply, batch, changes, spilled)

    def _apply(self, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet]) -> None:
        self._index.apply(batch, changes, spilled)
        if spilled:
            trim_heap()

    def flush(self) -> None:
        """Wait until all batches are written."""
        pending, self._pending = self._pending, None
        if pending is not None:
            try:
                pending.result()
            except OSError as error:
                raise ClewError(f"The index is not writable: {error}.", hint=RETRY_HINT) from error
