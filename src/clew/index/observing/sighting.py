"""An OpenLineage event with its position, time, run and job."""

from __future__ import annotations

from typing import NamedTuple

from clew.events.openlineage import Event
from clew.events.timestamps import to_epoch_micros
from clew.index.changes import DatasetRow, JobEdgeRow, JobRow, RunRow


class EventContext(NamedTuple):
    """Values of an event that all collectors need; `event_time` is in epoch microseconds."""

    event: Event
    seq: int
    event_time: int
    run_uuid: str | None
    job: tuple[str | None, str | None]

    @classmethod
    def of(cls, event: Event, seq: int) -> EventContext:
        """Build the context of an event."""
        run_uuid = None if event.run is None else event.run.run_id
        job = (None, None) if event.job is None else (event.job.namespace, event.job.name)
        return cls(event, seq, to_epoch_micros(event.time), run_uuid, job)


def extend_range(row: RunRow | JobRow | DatasetRow | JobEdgeRow, context: EventContext) -> None:
    """Extend the first and last event of a row, by event time."""
    # Compared before assignment: this runs for the run, the job and each dataset of every event.
    if context.event_time < row.first_event_at:
        row.first_event_at = context.event_time
    elif context.event_time > row.last_event_at:
        row.last_event_at = context.event_time
    row.last_seq = context.seq
