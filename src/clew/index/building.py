"""An index made in one go: as a draft, which takes its place when it is whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from clew.events.facet_order import FacetOrder
from clew.home import Place
from clew.index.places import store_of
from clew.index.sink import IndexSink


@contextmanager
def drafted(place: Place, order: FacetOrder = FacetOrder.RECEIVED) -> Iterator[IndexSink]:
    """A sink for a new index. Whatever ends this early leaves the index at that place as it was."""
    with store_of(place).drafted() as draft, IndexSink(place, order, draft.builder) as index:
        yield index
        index.complete()
