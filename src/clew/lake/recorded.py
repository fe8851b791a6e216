"""Stored events read back from the lake, in partitions that fit into a worker's memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clew.lake.delta import Lake
from clew.lake.storage import open_parquet
from clew.lake.tables import EVENT_GRAIN_TABLES, FACET_TABLES, REJECTED_EVENTS

# Large partitions reduce the merge work of the driver; small last partitions keep all workers busy until the end.
_MAX_PARTITION_BYTES: Final = 96 << 20
_MIN_PARTITION_BYTES: Final = 24 << 20
_ROWS_PER_BATCH = 256
_COLUMNS = ("event_id", "seq", "event", "is_raw_only")


class RowGroup(NamedTuple):
    """A row group of a file of a table, and its size in memory."""

    table: str
    path: str
    row_group: int
    bytes: int


class StoredEvent(NamedTuple):
    """An event of a table; the body of a rejected event is not read."""

    table: str
    event_id: str
    seq: int
    body: memoryview | None
    is_raw_only: bool


RowGroupPartition = tuple[RowGroup, ...]


def plan_partitions(lake: Lake, workers: int) -> list[RowGroupPartition]:
    """Partition all row groups: large partitions first, then smaller ones, so that all workers finish together."""
    partitions: list[RowGroupPartition] = []
    for table in EVENT_GRAIN_TABLES:
        groups = list(_row_groups(lake, table))
        remaining_bytes = sum(group.bytes for group in groups)
        partition: list[RowGroup] = []
        for group in groups:
            size = sum(member.bytes for member in partition)
            if partition and size + group.bytes / 2 > _partition_bytes(remaining_bytes, workers):
                partitions.append(tuple(partition))
                remaining_bytes -= size
                partition = []
            partition.append(group)
        if partition:
            partitions.append(tuple(partition))
    return partitions


def _partition_bytes(remaining_bytes: int, workers: int) -> float:
    return min(_MAX_PARTITION_BYTES, max(_MIN_PARTITION_BYTES, remaining_bytes / (2 * workers)))


def read_stored_events(partition: RowGroupPartition) -> Iterator[StoredEvent]:
    """Read the events of a partition in the order received."""
    rows = pa.concat_tables((_read(group) for group in partition), promote_options="default")
    if not _is_sorted(rows["seq"]):
        rows = rows.sort_by("seq")
    table = partition[0].table
    for batch in rows.to_batches(_ROWS_PER_BATCH):
        columns = (_values(batch, name) for name in _COLUMNS)
        yield from (
            StoredEvent(table, identity, seq, body, bool(is_raw_only))
            for identity, seq, body, is_raw_only in zip(*columns, strict=True)
        )


def _is_sorted(positions: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.less_equal(positions[:-1], positions[1:])).as_py())


def _values(batch: pa.RecordBatch, name: str) -> list[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    column = batch.column(name)
    values: list[Any] = _string_views(column) if name == "event" else column.to_pylist()
    return values


def _string_views(texts: pa.StringArray) -> list[memoryview]:
    """Return zero-copy views of a string column."""
    _, offsets, data = texts.buffers()
    first, data_view = texts.offset, memoryview(data)
    starts = memoryview(offsets).cast("i")[first : first + len(texts) + 1]
    return [data_view[start:end] for start, end in pairwise(starts)]


def sample_facets(lake: Lake, count: int = 1000) -> list[bytes]:
    """Read about `count` facets of each facet table."""
    samples: list[bytes] = []
    for number, table in enumerate(FACET_TABLES, start=1):
        for path in lake.files(table.name):
            if len(samples) >= number * count:
                break
            batch = next(pq.ParquetFile(open_parquet(path)).iter_batches(count, columns=["facet"]), None)
            samples += [] if batch is None else [text.encode() for text in batch["facet"].to_pylist() if text]
    return samples


def _row_groups(lake: Lake, table: str) -> Iterator[RowGroup]:
    for path in lake.files(table):
        footer = pq.read_metadata(open_parquet(path))
        for index in range(footer.num_row_groups):
            # Bodies of rejected events are not read.
            rows = footer.row_group(index)
            size = rows.num_rows if table == REJECTED_EVENTS.name else rows.total_byte_size
            yield RowGroup(table, path, index, size)


def _read(group: RowGroup) -> pa.Table:
    file = pq.ParquetFile(open_parquet(group.path))
    # Older files may lack a column.
    return file.read_row_group(group.row_group, columns=[name for name in _COLUMNS if name in file.schema_arrow.names])
