"""Precedence of events when facets are compared: by arrival or by event time."""

from __future__ import annotations

from collections.abc import Iterator

from clew.events.facet_order import FacetOrder
from clew.index.changes import EventTimeRow
from clew.index.observing.sighting import EventContext


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
