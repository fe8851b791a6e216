"""Which of several facets of one name counts: a setting of the lake."""

from __future__ import annotations

from enum import StrEnum


class FacetOrder(StrEnum):
    """What makes a facet the later one."""

    RECEIVED = "received"
    EVENT_TIME = "event_time"

    @property
    def option(self) -> str:
        """As it is written on the command line."""
        return self.value.replace("_", "-")

    @property
    def words(self) -> str:
        """As a sentence says it."""
        return "the time of their events" if self is FacetOrder.EVENT_TIME else "when they were received"

    def place(self, seq: int, event_time: int) -> tuple[int, int]:
        """Where a facet stands in the order: the greatest place wins, and of two at one time the later received."""
        return (event_time, seq) if self is FacetOrder.EVENT_TIME else (seq, event_time)
