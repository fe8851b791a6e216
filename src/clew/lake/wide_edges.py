"""Column edges of wide tables: Spark plans carry one edge per source, the writing task expands the others.

A large columnLineage facet has tens of thousands of edges. A Spark row for each costs 50 times as much as parsing the
facet a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from clew.events.column_lineage import ColumnEdge
from clew.events.statements import parse_asserted_edges
from clew.lake.facet_places import resolve_ref

# Column with the reference to the facet, set in rows that represent all edges from their source.
WIDE_EDGE_TEXT: Final = "wide_edge_text"
# Columns that differ between the edges from one source.
_EDGE_COLUMNS: Final = ("column", "source_column", "type", "subtype", "description", "masking")


def has_wide_rows(rows: pa.RecordBatch) -> bool:
    """Return whether some rows represent many edges."""
    return WIDE_EDGE_TEXT in rows.schema.names and rows.column(WIDE_EDGE_TEXT).null_count < rows.num_rows


def expand_edges(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Replace each row that represents many edges by all of them; rows of other tables pass unchanged."""
    if WIDE_EDGE_TEXT not in rows.schema.names:
        yield rows
        return
    texts, narrow = rows.column(WIDE_EDGE_TEXT), rows.drop_columns([WIDE_EDGE_TEXT])
    positions = pc.indices_nonzero(pc.is_valid(texts)).to_pylist()
    for before, position in pairwise([-1, *positions, rows.num_rows]):
        yield narrow.slice(before + 1, position - before - 1)
        if position < rows.num_rows:
            yield _expand(narrow.slice(position, 1), texts[position].as_py())


def _expand(row: pa.RecordBatch, text: str) -> pa.RecordBatch:
    edges = _edges(text)
    source = _source(edges[row.column("edge_position")[0].as_py()])
    own = [position for position, edge in enumerate(edges) if _source(edge) == source]
    repeated = row.take(pa.array([0] * len(own), pa.int32()))
    values = {
        "edge_position": own,
        **{name: [getattr(edges[position], name) for position in own] for name in _EDGE_COLUMNS},
    }
    columns = [
        pa.array(values[field.name], field.type) if field.name in values else repeated.column(field.name)
        for field in row.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=row.schema)


# Rows of one facet are adjacent.
@lru_cache(1)
def _edges(text: str) -> list[ColumnEdge]:
    return parse_asserted_edges(resolve_ref(text)) or []


def _source(edge: ColumnEdge) -> tuple[str, str]:
    return edge.source_namespace, edge.source_name
