"""Large facets, kept out of line: one of megabytes would make its whole row group slow to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from clew.lake.tables import LARGE_FACETS

LARGEST_INLINE: Final = 64 << 10


def set_apart(facets: Mapping[str, pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
    """Rows of facet tables, by table, with the large facets of all of them in a batch of their own."""
    parts = {name: _split(rows) for name, rows in facets.items()}
    slim = {name: rows for name, (rows, _) in parts.items()}
    large = [apart for _, apart in parts.values() if apart is not None]
    if not large:
        return slim
    (together,) = pa.Table.from_batches(large).combine_chunks().to_batches()
    return {LARGE_FACETS.name: together, **slim}


def _split(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    sizes = pc.binary_length(rows.column("facet"))
    if (pc.max(sizes).as_py() or 0) <= LARGEST_INLINE:
        return rows, None
    is_large = pc.greater(sizes, LARGEST_INLINE)
    nothing = pa.scalar(None)
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns["facet"] = pc.if_else(is_large, nothing.cast(pa.string()), columns["facet"])
    columns["facet_bytes"] = pc.if_else(is_large, sizes.cast(pa.int64()), nothing.cast(pa.int64()))
    slim = pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)
    return slim, rows.filter(is_large).select(LARGE_FACETS.schema.names)
