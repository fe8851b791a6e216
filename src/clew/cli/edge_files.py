"""Lineage edges as a Parquet file."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from clew.query.lineage import LineageResult

_COLUMNS = ("from", "to", "kind", "subtype", "description", "job", "dataset", "version")
_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in _COLUMNS])


def edges_to_parquet(result: LineageResult) -> bytes:
    """Return a Parquet file with a row per edge; nodes are given by id."""
    rows = [
        (edge.start, edge.end, edge.kind, edge.subtype, edge.description, edge.job, edge.dataset, edge.version)
        for edge in result.edges
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    file = io.BytesIO()
    pq.write_table(pa.table([pa.array(column, pa.string()) for column in columns], schema=_SCHEMA), file)
    return file.getvalue()
