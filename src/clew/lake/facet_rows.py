"""Rows of the facet tables as they are read: large facets stand in their place again."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from clew.lake.delta import Lake
from clew.lake.scan import Span, rows_within
from clew.lake.tables import LARGE_FACETS, Table


def facet_rows(lake: Lake, table: Table, span: Span) -> pa.Table:
    """The rows of a facet table within a span, each with its facet."""
    return facet_rows_where(lake, table, span, span.filter())


def facet_rows_where(lake: Lake, table: Table, span: Span, wanted: pc.Expression) -> pa.Table:
    """Those rows of a facet table that are wanted, each with its facet; all are within the span."""
    rows = rows_within(lake, table, span).to_table(filter=wanted)
    apart = rows.filter(pc.is_valid(rows["facet_bytes"]))
    # Large facets are committed first and so read last: the body of each that was seen is there.
    return made_whole(rows, _large_facets(lake, apart)) if apart.num_rows else rows


def made_whole(rows: pa.Table, large_facets: pa.Table) -> pa.Table:
    """Rows of a facet table with those of `large_facets` in their place."""
    bodies = dict(zip(large_facets["uuid"].to_pylist(), large_facets["facet"].to_pylist(), strict=True))
    facets = [
        bodies.get(uuid) if facet is None else facet
        for uuid, facet in zip(rows["uuid"].to_pylist(), rows["facet"].to_pylist(), strict=True)
    ]
    return rows.set_column(rows.schema.get_field_index("facet"), "facet", pa.array(facets, pa.string()))


def _large_facets(lake: Lake, rows: pa.Table) -> pa.Table:
    bounds = pc.min_max(rows["seq"])
    span = Span("seq", bounds["min"].as_py(), bounds["max"].as_py())
    wanted = pc.field("uuid").isin(rows["uuid"].combine_chunks())
    return rows_within(lake, LARGE_FACETS, span).to_table(columns=["uuid", "facet"], filter=span.filter() & wanted)
