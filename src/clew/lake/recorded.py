"""The events that a lake holds, as they came, in parts that fit into a worker's memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from clew.lake.delta import Lake
from clew.lake.scan import in_order_received
from clew.lake.tables import FACET_TABLES, ONE_ROW_PER_EVENT, REJECTED_EVENTS

PART_BYTES: Final = 64 << 20
_COLUMNS = ("event_id", "seq", "event", "is_raw_only")


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
    """All events, in parts that come as near to so many bytes as whole row groups can."""
    parts: list[Part] = []
    for table in ONE_ROW_PER_EVENT:
        part: list[RowGroup] = []
        for group in _row_groups(lake, table):
            if part and sum(known.bytes for known in part) + group.bytes / 2 > part_bytes:
                parts.append(tuple(part))
                part = []
            part.append(group)
        if part:
            parts.append(tuple(part))
    return parts


def recorded_events(part: Part) -> Iterator[RecordedEvent]:
    """The events of a part in the order received, whatever the order of rows in the files is."""
    rows = pa.concat_tables((_read(group) for group in part), promote_options="default")
    for row in in_order_received(rows):
        yield RecordedEvent(part[0].table, row["event_id"], row["seq"], row.get("event"), bool(row.get("is_raw_only")))


def facet_samples(lake: Lake, count: int = 1000) -> list[bytes]:
    """About so many facets of each kind, or all if there are fewer."""
    samples: list[bytes] = []
    for place, table in enumerate(FACET_TABLES, start=1):
        for path in lake.files(table.name):
            if len(samples) >= place * count:
                break
            batch = next(pq.ParquetFile(Path(path)).iter_batches(count, columns=["facet"]), None)
            samples += [] if batch is None else [text.encode() for text in batch["facet"].to_pylist() if text]
    return samples


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
