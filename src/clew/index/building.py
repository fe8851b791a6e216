"""An index made in one go: as a draft, which takes its place when it is whole."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clew.events.facet_order import FacetOrder
from clew.index.sink import IndexSink
from clew.index.store import connect_builder, connect_writer, remove


@contextmanager
def drafted(path: Path, order: FacetOrder = FacetOrder.RECEIVED) -> Iterator[IndexSink]:
    """A sink for a new index. Whatever ends this early leaves the index at `path` as it was."""
    draft = path.with_name(f"{path.name}.draft")
    remove(draft)
    try:
        with IndexSink(draft, order, connect_builder) as index:
            yield index
            index.complete()
        # Synced from here on, as every index is.
        connect_writer(draft).close()
        remove(path)
        draft.replace(path)
    finally:
        remove(draft)
