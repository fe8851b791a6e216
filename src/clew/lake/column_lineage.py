"""Statements of column lineage as rows, one per edge."""

from __future__ import annotations

import pyarrow as pa
from msgspec import structs

from clew.events.column_lineage import StatedEdge, edges_of
from clew.events.identity import content_id

_STATEMENT = [
    ("run_uuid", pa.string()),
    ("job_namespace", pa.string()),
    ("job_name", pa.string()),
    ("dataset_namespace", pa.string()),
    ("dataset_name", pa.string()),
    ("dataset_version", pa.string()),
    ("event_id", pa.string()),
    ("event_time", pa.timestamp("us", tz="UTC")),
    ("session_id", pa.string()),
    ("seq", pa.int64()),
]
_EDGE = [
    ("edge_set", pa.string()),
    ("ordinal", pa.int64()),
    ("column", pa.string()),
    ("source_namespace", pa.string()),
    ("source_name", pa.string()),
    ("source_column", pa.string()),
    ("type", pa.string()),
    ("subtype", pa.string()),
    ("description", pa.string()),
    ("masking", pa.bool_()),
]
STATED_EDGES = pa.schema([*_STATEMENT, *_EDGE])


def stated_edges(statements: pa.RecordBatch) -> pa.RecordBatch:
    """All edges of a batch of statements, each a facet with the run, job and output that it is about."""
    rows: list[int] = []
    edges: list[tuple[str, int, StatedEdge]] = []
    for row, facet in enumerate(statements.column("facet").to_pylist()):
        edge_set = content_id(facet.encode())
        found = [(edge_set, ordinal, edge) for ordinal, edge in enumerate(edges_of(facet))]
        rows += [row] * len(found)
        edges += found
    spread = pa.array(rows, pa.int32())
    columns = [statements.column(name).cast(kind).take(spread) for name, kind in _STATEMENT]
    values = [(edge_set, ordinal, *structs.astuple(edge)) for edge_set, ordinal, edge in edges]
    columns += [pa.array([value[place] for value in values], kind) for place, (_, kind) in enumerate(_EDGE)]
    return pa.RecordBatch.from_arrays(columns, schema=STATED_EDGES)
