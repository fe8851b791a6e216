"""Data source of the notebook run endpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias

from clew.query.model import LineageStep, NotebookRun, SessionSummary


class NotebookRunSource(Protocol):
    """Queries on notebook runs; unknown names raise `UsageError`."""

    def runs(self) -> Sequence[SessionSummary]:
        """Return notebook runs, newest first."""

    def latest_run(self) -> NotebookRun | None:
        """Return the latest run."""

    def run(self, session_id: str) -> NotebookRun:
        """Return a run."""

    def upstream(self, column: str) -> LineageStep:
        """Return the upstream lineage of `dataset.column`."""


# Opened for each request: the index can be created or rebuilt while the server runs.
OpenRunSource: TypeAlias = Callable[[], AbstractContextManager[NotebookRunSource]]
