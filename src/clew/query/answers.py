"""Queries on notebook sessions, for CLI, web UI and MCP."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Self

from clew.errors import UsageError
from clew.home import IndexLocation
from clew.index.reader import IndexReader
from clew.query.documentation import NotebookDocumentation, document_notebook
from clew.query.drift import DatasetDrift, compute_drift
from clew.query.folding import collapse_frames
from clew.query.meant import resolve_column
from clew.query.model import LineageStep, NotebookRun, SessionSummary
from clew.query.names import resolve_dataset
from clew.query.notebook_runs import get_notebook_run, latest_session_id, list_sessions
from clew.query.run_entries import JobRunSummary, RunSelection, list_job_runs
from clew.query.session_costs import SessionResources, summarize_resources
from clew.query.upstream import MAX_DEPTH, trace_upstream


class NotebookService:
    """Queries on notebook sessions of one index."""

    def __init__(self, index: IndexLocation | IndexReader) -> None:
        self._index = index if isinstance(index, IndexReader) else IndexReader(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._index.close()

    def runs(self) -> list[SessionSummary]:
        """List notebook sessions, newest first."""
        return list_sessions(self._index)

    def job_runs(self, selection: RunSelection, *, since: datetime | None = None, limit: int) -> list[JobRunSummary]:
        """List runs of any job: recent, failed or slowest."""
        return list_job_runs(self._index, selection, since, limit)

    def resources(self, session_id: str | None = None, *, limit: int) -> list[SessionResources]:
        """Return the resources of sessions, newest first, or of one session."""
        sessions = [session_id] if session_id else [run.session_id for run in list_sessions(self._index, limit)]
        return [summarize_resources(get_notebook_run(self._index, session)) for session in sessions]

    def drift(self, dataset: str) -> DatasetDrift:
        """Compute the drift of a dataset."""
        return compute_drift(self._index, resolve_dataset(self._index, dataset))

    def documentation(self, name: str | None = None) -> NotebookDocumentation:
        """Document a notebook by its latest session, or a given session."""
        return document_notebook(self._index, name)

    def latest_run(self) -> NotebookRun | None:
        """Return the session that started last."""
        session = latest_session_id(self._index)
        return None if session is None else get_notebook_run(self._index, session)

    def is_session(self, name: str) -> bool:
        """Return whether a name is the id of a notebook session."""
        return bool(self._index.cells(name))

    def run(self, session_id: str) -> NotebookRun:
        """Load a notebook session."""
        return get_notebook_run(self._index, session_id)

    def upstream(self, column: str, *, depth: int = MAX_DEPTH, is_collapsed: bool = True) -> LineageStep:
        """Trace `dataset.column` upstream; if collapsed, a method chain is one step."""
        if depth < 1:
            raise UsageError(f"Invalid depth: {depth}.", hint="Pass a depth of 1 or more.")
        dataset, name = resolve_column(self._index, column)
        step = trace_upstream(self._index, dataset, name, depth=depth)
        return collapse_frames(step) if is_collapsed else step

    def indexed_at(self) -> str | None:
        """Return when the last batch was indexed."""
        return self._index.meta("indexed_at")
