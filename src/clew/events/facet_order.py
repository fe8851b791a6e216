"""Precedence of facets with the same name: a setting of the lake."""

from __future__ import annotations

from enum import StrEnum


class FacetOrder(StrEnum):
    """Order in which a later facet replaces an earlier one."""

    RECEIVED = "received"
    EVENT_TIME = "event_time"

    @property
    def option(self) -> str:
        """Value of the command-line option."""
        return self.value.replace("_", "-")

    @property
    def description(self) -> str:
        """Description for messages: "facets are ordered by …"."""
        return "event time" if self is FacetOrder.EVENT_TIME else "time of receipt"

    def sort_key(self, seq: int, event_time: int) -> tuple[int, int]:
        """Return the sort key of a facet: the greatest wins; facets of equal event time are ordered by receipt."""
        return (event_time, seq) if self is FacetOrder.EVENT_TIME else (seq, event_time)
