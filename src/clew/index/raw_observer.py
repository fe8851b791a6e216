"""Extraction of index changes from raw-only events, without the facets, which a backfill adds later."""

from __future__ import annotations

from clew.events.bare import without_facets
from clew.events.openlineage import Event
from clew.index.changes import ChangeSet
from clew.index.observer import ChangeExtractor


class RawOnlyExtractor:
    """Collect the runs, jobs, datasets, inputs and outputs of events; a backfill completes them."""

    def __init__(self) -> None:
        self._extractor = ChangeExtractor()

    def add(self, event: Event, event_id: str, seq: int) -> None:
        """Add an event."""
        self._extractor.add(without_facets(event), event_id, seq)

    def changes(self) -> ChangeSet:
        """Return the changes of all events."""
        changes = self._extractor.changes()
        return ChangeSet(
            events=changes.events,
            run_events=changes.run_events,
            runs=changes.runs,
            jobs=changes.jobs,
            datasets=changes.datasets,
            run_io=changes.run_io,
            reported_job_edges=changes.reported_job_edges,
        )
