"""Deletion of expired rows from the event tables."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clew.lake.clustering import read_rows, write_sorted
from clew.lake.delta import Lake
from clew.lake.exchange import ActiveFile, active_files, replace_files
from clew.lake.files import DataFile
from clew.lake.storage import open_parquet
from clew.lake.tables import EVENT_GRAIN_TABLES, EVENT_TABLES, Table

# Columns with the receive time, of events and of facets.
_RECEIVED_COLUMNS = ("received_at", "created_at")


def find_expired_seqs(lake: Lake, cutoff: datetime) -> pa.Array:
    """Find the events received before `cutoff`, by `seq`."""
    seqs = [pa.array([], pa.int64())]
    for name in EVENT_GRAIN_TABLES:
        for path in lake.files(name):
            rows = pq.read_table(open_parquet(path), columns=["seq", "received_at"], partitioning=None)
            seqs += rows.filter(pc.field("received_at") < pa.scalar(cutoff))["seq"].chunks
    return pa.concat_arrays(seqs)


def delete_rows_before(lake: Lake, cutoff: datetime, events: pa.Array) -> dict[str, int]:
    """Delete rows received before `cutoff`; return the number of rows by table. No pipeline may be running.

    Events are deleted last, so that an interrupted deletion can be repeated.
    """
    return {table.name: _delete(lake, table, cutoff, events) for table in EVENT_TABLES}


def _delete(lake: Lake, table: Table, cutoff: datetime, events: pa.Array) -> int:
    delta = lake.table(table.name)
    if delta is None:
        return 0
    folder, schema = lake.root / table.name, pa.schema(delta.schema().to_arrow())
    removed: list[ActiveFile] = []
    added: list[DataFile] = []
    count = 0
    for file in active_files(delta):
        is_retained = _is_retained(str(folder / file.name), cutoff, events)
        expired = is_retained.length() - (pc.sum(is_retained).as_py() or 0)
        if expired:
            removed.append(file)
            count += expired
            if expired < is_retained.length():
                added.append(write_sorted(folder, table, read_rows(folder, file.name, schema).filter(is_retained)))
    if removed:
        replace_files(lake, table.name, removed, added, is_data_change=True)
    return count


def _is_retained(path: str, cutoff: datetime, events: pa.Array) -> pa.ChunkedArray:
    """Return for each row of a file whether it is retained."""
    names = pq.read_schema(open_parquet(path)).names
    time_column = next((name for name in _RECEIVED_COLUMNS if name in names), None)
    if time_column is None:
        return pc.invert(pc.is_in(_column(path, "seq"), value_set=events))
    return pc.fill_null(pc.greater_equal(_column(path, time_column), pa.scalar(cutoff)), fill_value=True)


def _column(path: str, name: str) -> pa.ChunkedArray:
    return pq.read_table(open_parquet(path), columns=[name], partitioning=None)[name]
