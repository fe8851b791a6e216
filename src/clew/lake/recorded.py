"""The events that a lake holds, as they came, in parts that fit into a worker's memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clew.lake.delta import Lake
from clew.lake.tables import ONE_ROW_PER_EVENT, REJECTED_EVENTS

PART_BYTES: Final = 32 << 20
_COLUMNS = ("event_id", "seq", "event", "is_raw_only")
_ROWS_PER_BATCH = 64


class RowGroup(NamedTuple):
    """A row group of a file of a table, and what it takes in memory."""

    table: str
    path: str
    place: int
    bytes: int


class RecordedEvent(NamedTuple):
    """An event of a table; one that was rejected has no body here, for it cannot be read."""

    table: str
    event_id: str
    seq: int
    body: bytes | None
    is_raw_only: bool


Part = tuple[RowGroup, ...]


def recorded_parts(lake: Lake, part_bytes: int = PART_BYTES) -> list[Part]:
    """All events, cut so that a part takes little more than so many bytes, unless one row group alone does."""
    parts: list[Part] = []
    for table in ONE_ROW_PER_EVENT:
        part: list[RowGroup] = []
        for group in _row_groups(lake, table):
            if part and sum(known.bytes for known in part) + group.bytes > part_bytes:
                parts.append(tuple(part))
                part = []
            part.append(group)
        if part:
            parts.append(tuple(part))
    return parts


def recorded_events(part: Part) -> Iterator[RecordedEvent]:
    """The events of a part in the order received, whatever the order of rows in the files is."""
    rows = pa.concat_tables((_read(group) for group in part), promote_options="default")
    order = pc.sort_indices(rows, sort_keys=[("seq", "ascending")])
    table = part[0].table
    for start in range(0, rows.num_rows, _ROWS_PER_BATCH):
        for row in rows.take(order.slice(start, _ROWS_PER_BATCH)).to_pylist():
            event: str | None = row.get("event")
            body = None if event is None else event.encode()
            yield RecordedEvent(table, row["event_id"], row["seq"], body, bool(row.get("is_raw_only")))


def _row_groups(lake: Lake, table: str) -> Iterator[RowGroup]:
    for path in lake.files(table):
        footer = pq.read_metadata(path)
        for place in range(footer.num_row_groups):
            # What is not read need not fit: of rejected events only their names are.
            rows = footer.row_group(place)
            size = rows.num_rows if table == REJECTED_EVENTS.name else rows.total_byte_size
            yield RowGroup(table, path, place, size)


def _read(group: RowGroup) -> pa.Table:
    file = pq.ParquetFile(Path(group.path))
    # A file may be older than a column.
    return file.read_row_group(group.place, columns=[name for name in _COLUMNS if name in file.schema_arrow.names])
