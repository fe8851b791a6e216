"""The index takes a batch while workers are busy with the next, so that neither waits for the other."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from clew.errors import ClewError
from clew.index.changes import Changes
from clew.index.sink import IndexSink
from clew.pipeline.faults import RETRY
from clew.pipeline.memory import give_back


class IndexThread:
    """Applies batches one behind. Use as a context manager: at its end the index has all of them."""

    def __init__(self, index: IndexSink) -> None:
        self._index = index
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="clew-index")
        self._applying: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.settle()
            self._index.let_go()
            give_back()
        finally:
            self._thread.shutdown()

    def apply(self, batch: str, changes: Changes, aside: Iterable[Changes] = ()) -> None:
        """Begin to apply a batch, once those before are applied; see `IndexSink.apply`."""
        self.settle()
        self._applying = self._thread.submit(self._apply, batch, changes, aside)

    def _apply(self, batch: str, changes: Changes, aside: Iterable[Changes]) -> None:
        self._index.apply(batch, changes, aside)
        if aside:
            give_back()

    def settle(self) -> None:
        """Wait until the index has all batches that were given so far."""
        applying, self._applying = self._applying, None
        if applying is not None:
            try:
                applying.result()
            except OSError as fault:
                raise ClewError(f"The index cannot be written: {fault}.", hint=RETRY) from fault
