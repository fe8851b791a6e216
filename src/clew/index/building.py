"""Bulk build of an index in a staging location that replaces the index when complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from clew.events.facet_order import FacetOrder
from clew.home import IndexLocation
from clew.index.places import open_backend
from clew.index.sink import IndexWriter


@contextmanager
def build_and_swap(location: IndexLocation, order: FacetOrder = FacetOrder.RECEIVED) -> Iterator[IndexWriter]:
    """Yield a writer of a new index, and swap it in at the end; after an error the existing index is unchanged."""
    with open_backend(location).staged() as staging, IndexWriter(location, order, staging.bulk_writer) as index:
        yield index
        index.create_indexes()
