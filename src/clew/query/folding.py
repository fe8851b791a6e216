"""Frames that no variable ever held, folded away: a chain of calls reads as the one statement it was written as."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.events.notebook import FRAMES
from clew.query.model import ColumnEdge, Dataset, Hop

# OpenLineage: a value that was aggregated on its way was aggregated, whatever else was done to it.
STRENGTH = {None: 0, "IDENTITY": 1, "TRANSFORMATION": 2, "AGGREGATION": 3}


def is_unnamed(dataset: Dataset) -> bool:
    """Whether a frame was never held by a variable: it then bears the name of the operation that made it."""
    return dataset.namespace == FRAMES and dataset.name.count("/") > 1


def folded(hop: Hop) -> Hop:
    """The same ancestry without unnamed frames; a source that several ways lead to is told once."""
    sources: dict[object, Hop] = {}
    for source in _named(hop):
        sources.setdefault((source.dataset, source.version, source.column, _part(source.edge)), source)
    return msgspec.structs.replace(hop, upstream=tuple(sources.values()))


def _part(edge: ColumnEdge | None) -> object:
    return None if edge is None else (edge.type, edge.subtype, edge.flag, edge.run_uuid)


def _named(hop: Hop) -> Iterator[Hop]:
    for source in hop.upstream:
        if not is_unnamed(source.dataset):
            yield folded(source)
            continue
        for beyond in _named(source):
            edge = _through(source.edge, beyond.edge)
            if edge is not None:
                yield msgspec.structs.replace(beyond, edge=edge, operation=source.operation, cell=source.cell)


def _through(near: ColumnEdge | None, far: ColumnEdge | None) -> ColumnEdge | None:
    """The edge from what is beyond an unnamed frame to what was made of it; None if it has no part in that."""
    if near is None or far is None:
        return None
    if near.type == "INDIRECT":
        # What only influences a column that only influences says nothing of the values.
        how = near if far.type == "DIRECT" else None
    elif far.type == "INDIRECT":
        how = far
    else:
        how = max(near, far, key=lambda edge: STRENGTH.get(edge.subtype, 0))
    if how is None:
        return None
    return msgspec.structs.replace(
        near,
        source=far.source,
        source_version=far.source_version,
        source_column=far.source_column,
        type=how.type,
        subtype=how.subtype,
        flag=near.flag or far.flag,
    )
