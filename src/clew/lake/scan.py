"""Table scans with data skipping by file statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from clew.lake.delta import Lake
from clew.lake.storage import open_storage
from clew.lake.tables import Table


class ValueRange(NamedTuple):
    """A range of values of one column, both ends included."""

    column: str
    low: str | int
    high: str | int

    def filter(self) -> pc.Expression:
        """Return the range as a pyarrow expression."""
        value = pc.field(self.column)
        return (value >= self.low) & (value <= self.high)


def scan_range(lake: Lake, table: Table, value_range: ValueRange) -> ds.Dataset:
    """Return a dataset of the files that may contain rows within the range; it may contain other rows, too."""
    files = prune_files(lake, table, value_range)
    if not files:
        return ds.dataset(table.schema.empty_table())
    return open_storage(lake.root / table.name).dataset(files, table.schema)


def prune_files(lake: Lake, table: Table, value_range: ValueRange) -> list[str]:
    """List the files of a table that may contain rows within the range, by their statistics."""
    delta = lake.table(table.name)
    if delta is None:
        return []
    actions = pa.table(delta.get_add_actions(flatten=True))
    return [name for name, low, high in _bounds(actions, value_range) if _overlaps(value_range, low, high)]


def iter_by_seq(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield rows ordered by `seq`, the event as bytes."""
    # Row by row from combined columns: `take` would copy all chunks of a column.
    columns = {name: _combined(rows[name], name) for name in rows.column_names}
    for index in pc.sort_indices(columns["seq"]).to_pylist():
        yield {name: column[index].as_py() for name, column in columns.items()}


def _combined(column: pa.ChunkedArray, name: str) -> pa.Array:
    return (column.cast(pa.binary()) if name == "event" else column).combine_chunks()


def _bounds(actions: pa.Table, value_range: ValueRange) -> Iterator[tuple[str, str | int | None, str | int | None]]:
    # Not `to_pyarrow_dataset` (deltalake 1.6): it skips files that have no minimum.
    names = ("path", f"min.{value_range.column}", f"max.{value_range.column}")
    columns = [actions[name].to_pylist() if name in actions.column_names else [None] * len(actions) for name in names]
    return zip(*columns, strict=True)


def _overlaps(value_range: ValueRange, low: str | int | None, high: str | int | None) -> bool:
    return (low is None or low <= value_range.high) and (high is None or high >= value_range.low)  # type: ignore[operator]
