"""Edges of wide tables: one per source stands for all from it, until the worker that writes them opens them again.

A columnLineage facet of megabytes has tens of thousands of edges. Each of them as a row of Spark costs fifty times as
much as opening the facet once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from clew.events.column_lineage import StatedEdge
from clew.events.statements import stated_edges_of
from clew.lake.facet_places import whole

# The column that names the text of a set of edges, where a row stands for many.
WIDE: Final = "wide"
# What is the edge's own; the rest of a row is the same for all edges from a source.
_OWN: Final = ("column", "source_column", "type", "subtype", "description", "masking")


def has_wide_rows(rows: pa.RecordBatch) -> bool:
    """Whether some stand for many edges."""
    return WIDE in rows.schema.names and rows.column(WIDE).null_count < rows.num_rows


def with_all_edges(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of any table; in place of one that stands for many edges, all of them."""
    if WIDE not in rows.schema.names:
        yield rows
        return
    texts, narrow = rows.column(WIDE), rows.drop_columns([WIDE])
    places = pc.indices_nonzero(pc.is_valid(texts)).to_pylist()
    for before, place in pairwise([-1, *places, rows.num_rows]):
        yield narrow.slice(before + 1, place - before - 1)
        if place < rows.num_rows:
            yield _spread(narrow.slice(place, 1), texts[place].as_py())


def _spread(row: pa.RecordBatch, text: str) -> pa.RecordBatch:
    edges = _edges(text)
    source = _source(edges[row.column("ordinal")[0].as_py()])
    own = [place for place, edge in enumerate(edges) if _source(edge) == source]
    spread = row.take(pa.array([0] * len(own), pa.int32()))
    values = {"ordinal": own, **{name: [getattr(edges[place], name) for place in own] for name in _OWN}}
    columns = [
        pa.array(values[field.name], field.type) if field.name in values else spread.column(field.name)
        for field in row.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=row.schema)


# Its sources follow each other.
@lru_cache(1)
def _edges(text: str) -> list[StatedEdge]:
    return stated_edges_of(whole(text)) or []


def _source(edge: StatedEdge) -> tuple[str, str]:
    return edge.source_namespace, edge.source_name
