"""Context of the event that rows are extracted from."""

from __future__ import annotations

from typing import NamedTuple

from clew.events.facets import FacetOrder
from clew.events.openlineage import Event, to_epoch_micros
from clew.index.encoding import entity_key


class EventContext(NamedTuple):
    """Values of an event that all rows need; times are in epoch microseconds.

    `order_time` is the event time if facets are ordered by event time, else None.
    """

    event: Event
    seq: int
    event_time: int
    order_time: int | None
    run_uuid: str | None
    job: tuple[str | None, str | None]

    @classmethod
    def of(cls, event: Event, seq: int, order: FacetOrder) -> EventContext:
        """Build the context of an event."""
        run_uuid = None if event.run is None else event.run.run_id
        job = (None, None) if event.job is None else (event.job.namespace, event.job.name)
        event_time = to_epoch_micros(event.time)
        return cls(event, seq, event_time, event_time if order is FacetOrder.EVENT_TIME else None, run_uuid, job)

    @property
    def asserted_by(self) -> str:
        """Key of the run, job or dataset that makes the event's assertions."""
        event = self.event
        if self.run_uuid is not None or event.dataset is None or event.kind != "DATASET":
            return self.run_uuid or entity_key(*self.job)
        # One part more than the key of a job, so that a job and a dataset of the same name differ.
        return entity_key(event.dataset.namespace, event.dataset.name, None)
