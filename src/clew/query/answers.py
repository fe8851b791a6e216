"""Every question in one place: what the terminal, the page and the agents ask."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Self

from clew.errors import UsageError
from clew.home import Place
from clew.index.reader import IndexReader
from clew.query.documentation import Documentation, documentation
from clew.query.drift import Drift, drift
from clew.query.folding import folded
from clew.query.meant import meant_column
from clew.query.model import Hop, NotebookRun, RunSummary
from clew.query.names import find_dataset
from clew.query.notebook_runs import latest_session, notebook_run, summaries
from clew.query.run_entries import RunEntry, RunKind, run_entries
from clew.query.session_costs import SessionCost, session_cost
from clew.query.upstream import MOST_HOPS, upstream


class Answers:
    """Answers from one index."""

    def __init__(self, index: Place | IndexReader) -> None:
        self._index = index if isinstance(index, IndexReader) else IndexReader(index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._index.close()

    def runs(self) -> list[RunSummary]:
        """Notebook runs, the newest first."""
        return summaries(self._index)

    def job_runs(self, kind: RunKind, *, since: datetime | None = None, limit: int) -> list[RunEntry]:
        """Runs of whatever job: the newest, those that failed, or those that took longest."""
        return run_entries(self._index, kind, since, limit)

    def costs(self, session_id: str | None = None, *, limit: int) -> list[SessionCost]:
        """What sessions cost, the newest first; or what one of them did."""
        sessions = [session_id] if session_id else [run.session_id for run in summaries(self._index, limit)]
        return [session_cost(notebook_run(self._index, session)) for session in sessions]

    def drift(self, dataset: str) -> Drift:
        """How a dataset changed from run to run."""
        return drift(self._index, find_dataset(self._index, dataset))

    def documentation(self, name: str | None = None) -> Documentation:
        """A notebook as a pipeline, by its last session or the one that is named."""
        return documentation(self._index, name)

    def latest(self) -> NotebookRun | None:
        """The notebook run that started last."""
        session = latest_session(self._index)
        return None if session is None else notebook_run(self._index, session)

    def is_session(self, name: str) -> bool:
        """Whether a name is the id of a notebook's session."""
        return bool(self._index.cells(name))

    def run(self, session_id: str) -> NotebookRun:
        """One notebook run."""
        return notebook_run(self._index, session_id)

    def upstream(self, column: str, *, depth: int = MOST_HOPS, is_folded: bool = True) -> Hop:
        """Where `dataset.column` came from; folded, a chain of calls is one hop."""
        if depth < 1:
            raise UsageError(f"A depth of {depth} shows nothing.", hint="Give a depth of 1 or more.")
        dataset, name = meant_column(self._index, column)
        hop = upstream(self._index, dataset, name, depth=depth)
        return folded(hop) if is_folded else hop

    def indexed_at(self) -> str | None:
        """When the last batch came in."""
        return self._index.meta("indexed_at")
