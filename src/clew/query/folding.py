"""Collapse intermediate frames (never assigned to a variable), so that a method chain is one step."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from clew.events.notebook import NOTEBOOK_NAMESPACE
from clew.query.model import ColumnLineageEdge, DatasetName, LineageStep

# OpenLineage: of several transformations along a path the strongest one names the result.
SUBTYPE_RANK = {None: 0, "IDENTITY": 1, "TRANSFORMATION": 2, "AGGREGATION": 3}


def is_intermediate_frame(dataset: DatasetName) -> bool:
    """Return whether a frame was never assigned to a variable; it is then named after its operation."""
    return dataset.namespace == NOTEBOOK_NAMESPACE and dataset.name.count("/") > 1


def collapse_frames(step: LineageStep) -> LineageStep:
    """Return the tree without intermediate frames; duplicate sources are merged."""
    sources: dict[object, LineageStep] = {}
    for source in _named_sources(step):
        sources.setdefault((source.dataset, source.version, source.column, _edge_key(source.edge)), source)
    return msgspec.structs.replace(step, upstream=tuple(sources.values()))


def _edge_key(edge: ColumnLineageEdge | None) -> object:
    return None if edge is None else (edge.type, edge.subtype, edge.flag, edge.run_uuid)


def _named_sources(step: LineageStep) -> Iterator[LineageStep]:
    for source in step.upstream:
        if not is_intermediate_frame(source.dataset):
            yield collapse_frames(source)
            continue
        for ancestor in _named_sources(source):
            edge = _compose_edges(source.edge, ancestor.edge)
            if edge is not None:
                yield msgspec.structs.replace(ancestor, edge=edge, operation=source.operation, cell=source.cell)


def _compose_edges(near: ColumnLineageEdge | None, far: ColumnLineageEdge | None) -> ColumnLineageEdge | None:
    """Compose the edges on both sides of an intermediate frame; None for INDIRECT after INDIRECT."""
    if near is None or far is None:
        return None
    if near.type == "INDIRECT":
        # INDIRECT after INDIRECT is not followed.
        dominant = near if far.type == "DIRECT" else None
    elif far.type == "INDIRECT":
        dominant = far
    else:
        dominant = max(near, far, key=lambda edge: SUBTYPE_RANK.get(edge.subtype, 0))
    if dominant is None:
        return None
    return msgspec.structs.replace(
        near,
        source=far.source,
        source_version=far.source_version,
        source_column=far.source_column,
        type=dominant.type,
        subtype=dominant.subtype,
        flag=near.flag or far.flag,
    )
