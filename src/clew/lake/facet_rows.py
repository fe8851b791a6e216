"""Rows of the facet tables with large facets joined in."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from clew.lake.delta import Lake
from clew.lake.scan import ValueRange, scan_range
from clew.lake.tables import LARGE_FACETS, Table


def read_facet_rows(lake: Lake, table: Table, value_range: ValueRange) -> pa.Table:
    """Read the rows of a facet table within a value range, large facets included."""
    return read_facet_rows_where(lake, table, value_range, value_range.filter())


def read_facet_rows_where(lake: Lake, table: Table, value_range: ValueRange, condition: pc.Expression) -> pa.Table:
    """Read the rows of a facet table that match a condition within a value range, large facets included."""
    rows = scan_range(lake, table, value_range).to_table(filter=condition)
    large = rows.filter(pc.is_valid(rows["large_facet_bytes"]))
    # Large facets are committed first and read last, so that none is missing.
    return with_large_facets(rows, _read_large_facets(lake, large)) if large.num_rows else rows


def with_large_facets(rows: pa.Table, large_facets: pa.Table) -> pa.Table:
    """Fill null facets from rows of `large_facets`."""
    bodies = dict(zip(large_facets["uuid"].to_pylist(), large_facets["facet"].to_pylist(), strict=True))
    facets = [
        bodies.get(uuid) if facet is None else facet
        for uuid, facet in zip(rows["uuid"].to_pylist(), rows["facet"].to_pylist(), strict=True)
    ]
    return rows.set_column(rows.schema.get_field_index("facet"), "facet", pa.array(facets, pa.string()))


def _read_large_facets(lake: Lake, rows: pa.Table) -> pa.Table:
    bounds = pc.min_max(rows["seq"])
    value_range = ValueRange("seq", bounds["min"].as_py(), bounds["max"].as_py())
    condition = pc.field("uuid").isin(rows["uuid"].combine_chunks())
    return scan_range(lake, LARGE_FACETS, value_range).to_table(
        columns=["uuid", "facet"], filter=value_range.filter() & condition
    )
