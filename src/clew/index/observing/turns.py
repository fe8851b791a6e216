"""Which of two events counts as the later one where facets are compared: by arrival, or by their own times."""

from __future__ import annotations

from collections.abc import Iterator

from clew.events.facet_order import FacetOrder
from clew.index.changes import MomentRow
from clew.index.observing.sighting import Sighting


class Turns:
    """The times of the events seen, if these decide. By arrival an event is always the last when it is seen."""

    def __init__(self, order: FacetOrder) -> None:
        self._is_by_time = order is FacetOrder.EVENT_TIME
        self._moments: dict[int, int] = {}

    def note(self, sighting: Sighting) -> None:
        """Take an event, before what it says."""
        if self._is_by_time:
            self._moments[sighting.seq] = sighting.at

    def is_last(self, sighting: Sighting, decided_by: int | None) -> bool:
        """Whether an event counts before the one, by its position, that has decided so far."""
        return not self._is_by_time or decided_by is None or sighting.at >= self._moments[decided_by]

    def rows(self) -> Iterator[MomentRow]:
        """The times of all events seen, by which the index goes on comparing."""
        return (MomentRow(*moment) for moment in self._moments.items())
