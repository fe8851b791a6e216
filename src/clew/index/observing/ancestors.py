"""Runs and jobs that events name as those of a parent or root: placeholders until their own events come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clew.events.run_facets import Ancestor, Parent
from clew.index.changes import MentionedJobRow, MentionedRunRow


class SeenAncestors:
    """What was said of parents and roots, each with the positions of the first and the last event that says so."""

    def __init__(self) -> None:
        self._said: dict[Parent, list[int]] = {}

    def note(self, parent: Parent, seq: int) -> None:
        """Take a parent facet."""
        span = self._said.get(parent)
        if span is None:
            self._said[parent] = [seq, seq]
        else:
            span[1] = seq

    def runs(self) -> Iterable[MentionedRunRow]:
        """One row per run that was named; its job is the one named first."""
        rows: dict[str, MentionedRunRow] = {}
        for ancestor, first, last in self._named():
            row = rows.get(ancestor.run_uuid)
            if row is None:
                row = rows[ancestor.run_uuid] = MentionedRunRow(ancestor.run_uuid, None, None, None, last)
            row.last_seq = max(row.last_seq, last)
            if row.job_seq is None and ancestor.job is not None:
                row.job_namespace, row.job_name, row.job_seq = *ancestor.job, first
        return rows.values()

    def jobs(self) -> Iterable[MentionedJobRow]:
        """One row per job of a run that was named."""
        rows: dict[tuple[str, str], MentionedJobRow] = {}
        for ancestor, first, last in self._named():
            if ancestor.job is not None:
                row = rows.setdefault(ancestor.job, MentionedJobRow(*ancestor.job, first, last))
                row.last_seq = max(row.last_seq, last)
        return rows.values()

    def _named(self) -> Iterator[tuple[Ancestor, int, int]]:
        """In the order in which they were said first."""
        for parent, (first, last) in self._said.items():
            for ancestor in parent.ancestors:
                yield ancestor, first, last
