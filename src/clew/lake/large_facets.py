"""Out-of-line storage of large facets, which would make their row group slow to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from clew.lake.tables import LARGE_FACETS

MAX_INLINE_BYTES: Final = 64 << 10


def split_large_facets(facets: Mapping[str, pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
    """Move the large facets of all facet tables into a batch for `large_facets`."""
    split = {name: _split(rows) for name, rows in facets.items()}
    small = {name: rows for name, (rows, _) in split.items()}
    large = [large_rows for _, large_rows in split.values() if large_rows is not None]
    if not large:
        return small
    (combined,) = pa.Table.from_batches(large).combine_chunks().to_batches()
    return {LARGE_FACETS.name: combined, **small}


def _split(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
    sizes = pc.binary_length(rows.column("facet"))
    if (pc.max(sizes).as_py() or 0) <= MAX_INLINE_BYTES:
        return rows, None
    is_large = pc.greater(sizes, MAX_INLINE_BYTES)
    null = pa.scalar(None)
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns["facet"] = pc.if_else(is_large, null.cast(pa.string()), columns["facet"])
    columns["large_facet_bytes"] = pc.if_else(is_large, sizes.cast(pa.int64()), null.cast(pa.int64()))
    small = pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)
    return small, rows.filter(is_large).select(LARGE_FACETS.schema.names)
