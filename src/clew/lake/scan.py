"""Read rows back: data skipping, row-group partitions, events of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from clew.lake.lake import Lake, file_values
from clew.lake.schemas import (
    DATAFRAME_EVENTS,
    EVENT_GRAIN_TABLES,
    FACET_TABLES,
    LINEAGE_EVENTS,
    REJECTED_EVENTS,
    RUNTIME_EVENTS,
    TABLES_BY_NAME,
    Table,
)
from clew.lake.storage import open_parquet, open_storage


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
    # Not `to_pyarrow_dataset` (deltalake 1.6): it skips files that have no minimum.
    bounds = file_values(delta, "path", f"min.{value_range.column}", f"max.{value_range.column}")
    return [name for name, low, high in bounds if _overlaps(value_range, low, high)]


def files_in_ranges(lake: Lake, table: str, ranges: Sequence[tuple[int, int]]) -> list[str]:
    """List the paths of files that may contain positions within one of the ranges."""
    names = {
        name: None
        for low, high in ranges
        for name in prune_files(lake, TABLES_BY_NAME[table], ValueRange("seq", low, high))
    }
    return [str(lake.root / table / name) for name in names]


def iter_by_seq(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield rows ordered by `seq`, the event as bytes."""
    # Row by row from combined columns: `take` would copy all chunks of a column.
    columns = {name: _combined(rows[name], name) for name in rows.column_names}
    for index in pc.sort_indices(columns["seq"]).to_pylist():
        yield {name: column[index].as_py() for name, column in columns.items()}


def _combined(column: pa.ChunkedArray, name: str) -> pa.Array:
    return (column.cast(pa.binary()) if name == "event" else column).combine_chunks()


def _overlaps(value_range: ValueRange, low: str | int | None, high: str | int | None) -> bool:
    return (low is None or low <= value_range.high) and (high is None or high >= value_range.low)  # type: ignore[operator]


# Large partitions reduce the merge work of the driver; small last partitions keep all workers busy until the end.
_MAX_PARTITION_BYTES: Final = 96 << 20
_MIN_PARTITION_BYTES: Final = 24 << 20
_ROWS_PER_BATCH = 256
_MAX_SEQ: Final = 2**63 - 1
_NOTEBOOK_TABLES: Final = (RUNTIME_EVENTS.name, DATAFRAME_EVENTS.name)
_COLUMNS = ("event_id", "seq", "event", "is_raw_only", "received_at")


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
    # ISO 8601; only of notebook events, whose time it may be.
    received_at: str = ""


RowGroupPartition = tuple[RowGroup, ...]


def plan_partitions(
    lake: Lake, workers: int, ranges: Callable[[str], Sequence[tuple[int, int]]] = lambda _: [(0, _MAX_SEQ)]
) -> list[RowGroupPartition]:
    """Partition the row groups that may have positions within ranges of their table.

    Large partitions come first, then smaller ones, so that all workers finish together.
    """
    partitions: list[RowGroupPartition] = []
    for table in EVENT_GRAIN_TABLES:
        groups = list(_row_groups(lake, table, ranges(table)))
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
            StoredEvent(table, identity, seq, body, bool(is_raw_only), at.isoformat() if at else "")
            for identity, seq, body, is_raw_only, at in zip(*columns, strict=True)
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


def _row_groups(lake: Lake, table: str, ranges: Sequence[tuple[int, int]]) -> Iterator[RowGroup]:
    for path in files_in_ranges(lake, table, ranges):
        footer = pq.read_metadata(open_parquet(path))
        for index in range(footer.num_row_groups):
            # Bodies of rejected events are not read.
            rows = footer.row_group(index)
            size = rows.num_rows if table == REJECTED_EVENTS.name else rows.total_byte_size
            yield RowGroup(table, path, index, size)


def _read(group: RowGroup) -> pa.Table:
    file = pq.ParquetFile(open_parquet(group.path), page_checksum_verification=True)
    columns = _COLUMNS if group.table in _NOTEBOOK_TABLES else _COLUMNS[:-1]
    # Older files may lack a column.
    return file.read_row_group(group.row_group, columns=[name for name in columns if name in file.schema_arrow.names])


def read_run_events(lake: Lake, run_uuid: str, session_id: str | None = None) -> Iterator[bytes]:
    """Read the events of a run, or of all runs of a notebook session, in the order received."""
    # Files are not sorted by session: all are scanned, but only one column.
    condition = pc.field("session_id") == session_id if session_id else pc.field("run_uuid") == run_uuid
    value_range = ValueRange("seq", 0, 2**63 - 1) if session_id else ValueRange("run_uuid", run_uuid, run_uuid)
    rows = scan_range(lake, LINEAGE_EVENTS, value_range).to_table(columns=["seq", "event"], filter=condition)
    for row in iter_by_seq(rows):
        yield row["event"]
