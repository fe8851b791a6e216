"""Runs and jobs that events reference as parent or root: placeholders until they have events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clew.events.run_facets import ParentFacet, RunRef
from clew.index.changes import ReferencedJobRow, ReferencedRunRow


class ParentReferenceCollector:
    """Collect parent facets, each with the positions of its first and last event."""

    def __init__(self) -> None:
        self._spans: dict[ParentFacet, list[int]] = {}

    def add(self, parent: ParentFacet, seq: int) -> None:
        """Add a parent facet."""
        span = self._spans.get(parent)
        if span is None:
            self._spans[parent] = [seq, seq]
        else:
            span[1] = seq

    def runs(self) -> Iterable[ReferencedRunRow]:
        """Return one row per referenced run, with the job of the first reference."""
        rows: dict[str, ReferencedRunRow] = {}
        for run, first, last in self._references():
            row = rows.get(run.run_uuid)
            if row is None:
                row = rows[run.run_uuid] = ReferencedRunRow(run.run_uuid, None, None, None, last)
            row.last_seq = max(row.last_seq, last)
            if row.job_seq is None and run.job is not None:
                row.job_namespace, row.job_name, row.job_seq = *run.job, first
        return rows.values()

    def jobs(self) -> Iterable[ReferencedJobRow]:
        """Return one row per job of a referenced run."""
        rows: dict[tuple[str, str], ReferencedJobRow] = {}
        for run, first, last in self._references():
            if run.job is not None:
                row = rows.setdefault(run.job, ReferencedJobRow(*run.job, first, last))
                row.last_seq = max(row.last_seq, last)
        return rows.values()

    def _references(self) -> Iterator[tuple[RunRef, int, int]]:
        """Yield the references with first and last position, ordered by first position."""
        for parent, (first, last) in self._spans.items():
            for run in parent.runs:
                yield run, first, last
