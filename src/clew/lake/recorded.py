"""The events that a lake holds, as they came, in parts that fit into a worker's memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clew.lake.delta import Lake
from clew.lake.storage import parquet_at
from clew.lake.tables import FACET_TABLES, ONE_ROW_PER_EVENT, REJECTED_EVENTS

# Events of a large part have more in common, which the driver need not merge; while the last are merged, workers idle.
_MOST_PART_BYTES: Final = 96 << 20
_LEAST_PART_BYTES: Final = 24 << 20
_ROWS_AT_A_TIME = 256
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
    body: memoryview | None
    is_raw_only: bool


Part = tuple[RowGroup, ...]


def recorded_parts(lake: Lake, workers: int) -> list[Part]:
    """All events, in parts of whole row groups: large ones first, then ever smaller ones, so that all end at once."""
    parts: list[Part] = []
    for table in ONE_ROW_PER_EVENT:
        groups = list(_row_groups(lake, table))
        left = sum(group.bytes for group in groups)
        part: list[RowGroup] = []
        for group in groups:
            size = sum(known.bytes for known in part)
            if part and size + group.bytes / 2 > _part_bytes(left, workers):
                parts.append(tuple(part))
                left -= size
                part = []
            part.append(group)
        if part:
            parts.append(tuple(part))
    return parts


def _part_bytes(left: int, workers: int) -> float:
    return min(_MOST_PART_BYTES, max(_LEAST_PART_BYTES, left / (2 * workers)))


def recorded_events(part: Part) -> Iterator[RecordedEvent]:
    """The events of a part in the order received, whatever the order of rows in the files is."""
    rows = pa.concat_tables((_read(group) for group in part), promote_options="default")
    if not _is_in_order(rows["seq"]):
        rows = rows.sort_by("seq")
    table = part[0].table
    for batch in rows.to_batches(_ROWS_AT_A_TIME):
        columns = (_values(batch, name) for name in _COLUMNS)
        yield from (
            RecordedEvent(table, identity, seq, body, bool(is_raw_only))
            for identity, seq, body, is_raw_only in zip(*columns, strict=True)
        )


def _is_in_order(positions: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.less_equal(positions[:-1], positions[1:])).as_py())


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    column = batch.column(name)
    values: list[Any] = _views(column) if name == "event" else column.to_pylist()
    return values


def _views(texts: pa.StringArray) -> list[memoryview]:
    """The bytes of texts where they are: they take most of what is read, and need not be copied."""
    _, offsets, data = texts.buffers()
    first, joined = texts.offset, memoryview(data)
    starts = memoryview(offsets).cast("i")[first : first + len(texts) + 1]
    return [joined[start:end] for start, end in pairwise(starts)]


def facet_samples(lake: Lake, count: int = 1000) -> list[bytes]:
    """About so many facets of each kind, or all if there are fewer."""
    samples: list[bytes] = []
    for place, table in enumerate(FACET_TABLES, start=1):
        for path in lake.files(table.name):
            if len(samples) >= place * count:
                break
            batch = next(pq.ParquetFile(parquet_at(path)).iter_batches(count, columns=["facet"]), None)
            samples += [] if batch is None else [text.encode() for text in batch["facet"].to_pylist() if text]
    return samples


def _row_groups(lake: Lake, table: str) -> Iterator[RowGroup]:
    for path in lake.files(table):
        footer = pq.read_metadata(parquet_at(path))
        for place in range(footer.num_row_groups):
            # What is not read need not fit: of rejected events only their names are.
            rows = footer.row_group(place)
            size = rows.num_rows if table == REJECTED_EVENTS.name else rows.total_byte_size
            yield RowGroup(table, path, place, size)


def _read(group: RowGroup) -> pa.Table:
    file = pq.ParquetFile(parquet_at(group.path))
    # A file may be older than a column.
    return file.read_row_group(group.place, columns=[name for name in _COLUMNS if name in file.schema_arrow.names])
