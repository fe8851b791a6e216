"""Watching events whose facets are left to a backfill: only what needs no facets is noted."""

from __future__ import annotations

from clew.events.bare import bare
from clew.events.openlineage import Event
from clew.index.changes import Changes
from clew.index.observer import Observer


class RawObserver:
    """Collects what a backfill will find there and complete: who there is, and who read and wrote what."""

    def __init__(self) -> None:
        self._observer = Observer()

    def note(self, event: Event, event_id: str, seq: int) -> None:
        """Take an event into account."""
        self._observer.note(bare(event), event_id, seq)

    def changes(self) -> Changes:
        """All that was noted."""
        noted = self._observer.changes()
        return Changes(
            events=noted.events,
            run_events=noted.run_events,
            runs=noted.runs,
            jobs=noted.jobs,
            datasets=noted.datasets,
            run_io=noted.run_io,
            said_job_edges=noted.said_job_edges,
        )
