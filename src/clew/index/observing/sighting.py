"""An OpenLineage event as it is seen: the event, where it stands and when, and who it is about."""

from __future__ import annotations

from typing import NamedTuple

from clew.events.openlineage import Event
from clew.events.timestamps import microseconds
from clew.index.changes import DatasetRow, JobEdgeRow, JobRow, RunRow


class Sighting(NamedTuple):
    """What every kind of row needs to know of an event."""

    event: Event
    seq: int
    at: int
    run_uuid: str | None
    job: tuple[str | None, str | None]

    @classmethod
    def of(cls, event: Event, seq: int) -> Sighting:
        """Look at an event once."""
        run_uuid = None if event.run is None else event.run.run_id
        job = (None, None) if event.job is None else (event.job.namespace, event.job.name)
        return cls(event, seq, microseconds(event.time), run_uuid, job)


def widen(row: RunRow | JobRow | DatasetRow | JobEdgeRow, sighting: Sighting) -> None:
    """Let a row reach from its first to its last event, by their own times, as one more is seen."""
    # Compared here: with every event this is done for its run, its job and each of its datasets.
    if sighting.at < row.first_event_at:
        row.first_event_at = sighting.at
    elif sighting.at > row.last_event_at:
        row.last_event_at = sighting.at
    row.last_seq = sighting.seq
