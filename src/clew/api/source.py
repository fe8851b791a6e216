"""What the API asks, and of whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from clew.query.model import Hop, NotebookRun, RunSummary


class RunSource(Protocol):
    """Whoever knows notebook runs; unknown names are a `UsageError`."""

    def runs(self) -> Sequence[RunSummary]:
        """Notebook runs, the newest first."""

    def latest(self) -> NotebookRun | None:
        """The run that started last."""

    def run(self, session_id: str) -> NotebookRun:
        """One run."""

    def upstream(self, column: str) -> Hop:
        """Where `dataset.column` came from."""


# Opened for each request: the index may be made, or made anew, while the server runs.
OpenSource: TypeAlias = Callable[[], AbstractContextManager[RunSource]]
