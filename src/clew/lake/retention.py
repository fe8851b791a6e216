"""Rows that are too old, dropped from the event tables."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clew.lake.clustering import read_rows, write_clustered
from clew.lake.delta import Lake
from clew.lake.exchange import LiveFile, exchange, live_files
from clew.lake.files import DataFile
from clew.lake.storage import parquet_at
from clew.lake.tables import EVENT_TABLES, ONE_ROW_PER_EVENT, Table

# When a row was received: events say it themselves, facets were made in the same moment.
_RECEIVED = ("received_at", "created_at")


def old_events(lake: Lake, cutoff: datetime) -> pa.Array:
    """The events, by `seq`, that were received before that."""
    found = [pa.array([], pa.int64())]
    for name in ONE_ROW_PER_EVENT:
        for path in lake.files(name):
            rows = pq.read_table(parquet_at(path), columns=["seq", "received_at"], partitioning=None)
            found += rows.filter(pc.field("received_at") < pa.scalar(cutoff))["seq"].chunks
    return pa.concat_arrays(found)


def drop_rows(lake: Lake, cutoff: datetime, events: pa.Array) -> dict[str, int]:
    """Drop what was received before; gives the number of rows by table. Needs that no pipeline is at work.

    Events go last, so that one that was interrupted can be done again.
    """
    return {table.name: _drop(lake, table, cutoff, events) for table in EVENT_TABLES}


def _drop(lake: Lake, table: Table, cutoff: datetime, events: pa.Array) -> int:
    delta = lake.table(table.name)
    if delta is None:
        return 0
    folder, schema = lake.root / table.name, pa.schema(delta.schema().to_arrow())
    removed: list[LiveFile] = []
    added: list[DataFile] = []
    count = 0
    for file in live_files(delta):
        is_kept = _is_kept(str(folder / file.name), cutoff, events)
        old = is_kept.length() - (pc.sum(is_kept).as_py() or 0)
        if old:
            removed.append(file)
            count += old
            if old < is_kept.length():
                added.append(write_clustered(folder, table, read_rows(folder, file.name, schema).filter(is_kept)))
    if removed:
        exchange(lake, table.name, removed, added, is_data_change=True)
    return count


def _is_kept(path: str, cutoff: datetime, events: pa.Array) -> pa.ChunkedArray:
    """For each row of a file whether it stays."""
    names = pq.read_schema(parquet_at(path)).names
    moment = next((name for name in _RECEIVED if name in names), None)
    if moment is None:
        return pc.invert(pc.is_in(_column(path, "seq"), value_set=events))
    return pc.fill_null(pc.greater_equal(_column(path, moment), pa.scalar(cutoff)), fill_value=True)


def _column(path: str, name: str) -> pa.ChunkedArray:
    return pq.read_table(parquet_at(path), columns=[name], partitioning=None)[name]
