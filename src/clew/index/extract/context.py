"""Context of the event being processed, and precedence of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clew.events.facets import FacetOrder
from clew.events.openlineage import Event, to_epoch_micros
from clew.index.changes import DatasetRow, EventTimeRow, JobEdgeRow, JobRow, RunRow


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


class EventPrecedence:
    """Event times by position, if facets are ordered by event time; by arrival, a new event always wins."""

    def __init__(self, order: FacetOrder) -> None:
        self._is_by_time = order is FacetOrder.EVENT_TIME
        self._event_times: dict[int, int] = {}

    def add(self, context: EventContext) -> None:
        """Add an event; call this before its facets are compared."""
        if self._is_by_time:
            self._event_times[context.seq] = context.event_time

    def supersedes(self, context: EventContext, current_seq: int | None) -> bool:
        """Return True if the event replaces the value that the event at `current_seq` decided."""
        return not self._is_by_time or current_seq is None or context.event_time >= self._event_times[current_seq]

    def rows(self) -> Iterator[EventTimeRow]:
        """Yield the event times, which the index needs for later comparisons."""
        return (EventTimeRow(*item) for item in self._event_times.items())


def max_or_none(left: str | None, right: str | None) -> str | None:
    """Return the greater string; None only if both are None."""
    return left if right is None else right if left is None else max(left, right)
