"""Rows of a table, looked for only in those of its files that may hold them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from clew.lake.delta import Lake
from clew.lake.storage import storage_at
from clew.lake.tables import Table


class Span(NamedTuple):
    """The values of one column that are asked for, both ends included."""

    column: str
    low: str | int
    high: str | int

    def filter(self) -> pc.Expression:
        """The same as an expression."""
        value = pc.field(self.column)
        return (value >= self.low) & (value <= self.high)


def rows_within(lake: Lake, table: Table, span: Span) -> ds.Dataset:
    """What to read the rows within a span from: it has the program's columns, and may hold other rows, too."""
    files = files_within(lake, table, span)
    if not files:
        return ds.dataset(table.schema.empty_table())
    return storage_at(lake.root / table.name).dataset(files, table.schema)


def files_within(lake: Lake, table: Table, span: Span) -> list[str]:
    """The names of a table's files that may hold rows within a span, by their statistics."""
    delta = lake.table(table.name)
    if delta is None:
        return []
    actions = pa.table(delta.get_add_actions(flatten=True))
    return [name for name, low, high in _bounds(actions, span) if _may_meet(span, low, high)]


def in_order_received(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows by `seq`, the text of an event as the bytes that came."""
    # One by one from whole columns: `take` copies all chunks of a column, however few rows are asked for.
    columns = {name: _whole(rows[name], name) for name in rows.column_names}
    for place in pc.sort_indices(columns["seq"]).to_pylist():
        yield {name: column[place].as_py() for name, column in columns.items()}


def _whole(column: pa.ChunkedArray, name: str) -> pa.Array:
    return (column.cast(pa.binary()) if name == "event" else column).combine_chunks()


def _bounds(actions: pa.Table, span: Span) -> Iterator[tuple[str, str | int | None, str | int | None]]:
    # Not `to_pyarrow_dataset` (deltalake 1.6): to it, a file without a minimum holds nothing at all.
    names = ("path", f"min.{span.column}", f"max.{span.column}")
    columns = [actions[name].to_pylist() if name in actions.column_names else [None] * len(actions) for name in names]
    return zip(*columns, strict=True)


def _may_meet(span: Span, low: str | int | None, high: str | int | None) -> bool:
    return (low is None or low <= span.high) and (high is None or high >= span.low)  # type: ignore[operator]
