"""Parquet data files and their Delta statistics."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from clew.data_dir import LakeLocation
from clew.lake.schemas import HIGH_CARDINALITY_COLUMNS
from clew.lake.storage import open_parquet, open_storage

# Longer strings are truncated to limit the Delta log. Omitting them would be worse: pyarrow readers of deltalake 1.6
# skip a file without bounds in any filter on the column.
_MAX_STRING_LENGTH = 64
_MAX_CODE_POINT = "\U0010ffff"
_MAX_TIMESTAMP = datetime.max.replace(tzinfo=UTC) - timedelta(milliseconds=1)


def compute_statistics(rows: pa.Table, large: frozenset[str], footer: pq.FileMetaData) -> str:
    """Compute the `stats` of the Delta add action of a file, from its footer where possible."""
    by_column = _footer_statistics(footer)
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name in large or not _is_comparable(column.type):
            continue
        nulls[name] = column.null_count
        bounds = _bounds(column, by_column[name])
        lower, upper = _bound(bounds[0], is_upper=False), _bound(bounds[1], is_upper=True)
        if lower is not None and upper is not None:
            low[name], high[name] = lower, upper
    return json.dumps({"numRecords": rows.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls})


def _footer_statistics(footer: pq.FileMetaData) -> dict[str, list[pq.Statistics]]:
    """Return the statistics of each row group by column."""
    by_column = defaultdict(list)
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    for chunk in (group.column(index) for group in groups for index in range(group.num_columns)):
        by_column[chunk.path_in_schema].append(chunk.statistics)
    return by_column


def _bounds(column: pa.ChunkedArray, by_column: Sequence[pq.Statistics]) -> tuple[Any, Any]:
    # Footers have no statistics of long strings and of chunks without values.
    if by_column and all(chunk is not None and chunk.has_min_max for chunk in by_column):
        return min(chunk.min for chunk in by_column), max(chunk.max for chunk in by_column)
    min_max = pc.min_max(column)
    return min_max["min"].as_py(), min_max["max"].as_py()


def _is_comparable(kind: pa.DataType) -> bool:
    tests = (pa.types.is_string, pa.types.is_int64, pa.types.is_float64, pa.types.is_timestamp, pa.types.is_boolean)
    return any(test(kind) for test in tests)


def _bound(value: Any, *, is_upper: bool) -> Any:
    """Return a bound as a JSON value; None if it has none."""
    if isinstance(value, str):
        return value if len(value) <= _MAX_STRING_LENGTH else _truncate_bound(value, is_upper=is_upper)
    if isinstance(value, datetime):
        return _milliseconds(value, is_upper=is_upper)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _truncate_bound(text: str, *, is_upper: bool) -> str | None:
    prefix = text[:_MAX_STRING_LENGTH]
    if not is_upper:
        return prefix
    return None if text[_MAX_STRING_LENGTH] == _MAX_CODE_POINT else prefix + _MAX_CODE_POINT


def _milliseconds(timestamp: datetime, *, is_upper: bool) -> str | None:
    # Delta stores milliseconds: a maximum that is rounded down would let a reader skip its row.
    if is_upper and timestamp.microsecond % 1000:
        if timestamp > _MAX_TIMESTAMP:
            return None
        timestamp += timedelta(milliseconds=1)
    return timestamp.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_batches(path: str, schema: pa.Schema, rows_per_batch: int = 65_536) -> Iterator[pa.RecordBatch]:
    """Yield the columns of a schema from a data file; columns that are newer than the file are null."""
    with pq.ParquetFile(open_parquet(path)) as file:
        present = {*schema.names} & {*file.schema_arrow.names}
        for batch in file.iter_batches(rows_per_batch, columns=[*present]):
            columns = [
                batch.column(field.name).cast(field.type)
                if field.name in present
                else pa.nulls(batch.num_rows, field.type)
                for field in schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


# By bytes, not by rows: an event may be 10 MB.
FLUSH_BYTES = 128 << 20
_COMPRESSION = "zstd"
# Large rows get small row groups, so that reading one does not read the others.
_LARGE_ROW_BYTES = 64 << 10
_LARGE_GROUP_BYTES = 8 << 20


@dataclass(frozen=True)
class DataFile:
    """An uncommitted Parquet file in a table's folder."""

    table: str
    name: str
    size: int
    rows: int
    stats: str
    written_ms: int


class FileWriter:
    """Buffers rows by table and writes them as Parquet files below `root`."""

    def __init__(self, root: str, large: Mapping[str, frozenset[str]], *, flush_bytes: int = FLUSH_BYTES) -> None:
        self.root = root
        self._large = large
        self._flush_bytes = flush_bytes
        self._buffered: dict[str, list[pa.RecordBatch]] = {}
        self._buffered_bytes = 0

    def add(self, rows: Mapping[str, pa.RecordBatch]) -> Iterator[DataFile]:
        """Buffer rows; yield the files written when the buffer is full."""
        for table, batch in rows.items():
            if batch.num_rows:
                self._buffered.setdefault(table, []).append(batch)
                self._buffered_bytes += batch.nbytes
        if self._buffered_bytes >= self._flush_bytes:
            yield from self.flush()

    def flush(self) -> Iterator[DataFile]:
        """Write all buffered rows."""
        while self._buffered:
            table, batches = self._buffered.popitem()
            yield self._write(table, pa.Table.from_batches(batches))
        self._buffered_bytes = 0

    def _write(self, table: str, rows: pa.Table) -> DataFile:
        large = self._large.get(table, frozenset())
        return write_data_file(f"{self.root}/{table}", table, rows, [rows], large, rows_per_group=_rows_per_group(rows))


def write_data_file(
    folder: LakeLocation | str,
    table: str,
    rows: pa.Table,
    parts: Iterable[pa.Table],
    large: frozenset[str],
    *,
    rows_per_group: int | None,
    **options: Any,
) -> DataFile:
    """Write rows, split into `parts`, as one Parquet file without committing it. `options` are those of the writer."""
    name = f"part-{uuid.uuid4().hex}.parquet"
    columns = [name for name in rows.schema.names if name not in large]
    footers: list[pq.FileMetaData] = []

    def write(sink: Any) -> None:
        with pq.ParquetWriter(
            sink,
            rows.schema,
            compression=_COMPRESSION,
            use_dictionary=[name for name in columns if name not in HIGH_CARDINALITY_COLUMNS],
            write_statistics=columns,
            write_page_checksum=True,
            **options,
        ) as writer:
            for part in parts:
                writer.write_table(part, row_group_size=rows_per_group)
        # Not pyarrow's `metadata_collector`: it reads the footer even after a failure, which would hide the original
        # error of a full disk.
        footers.append(writer.writer.metadata)

    size = open_storage(folder).write_parquet(name, write)
    stats = compute_statistics(rows, large, footers[-1])
    return DataFile(table, name, size, rows.num_rows, stats, int(time.time() * 1000))


def _rows_per_group(rows: pa.Table) -> int | None:
    """Return the rows per row group; None for the writer's default."""
    bytes_per_row = rows.nbytes // rows.num_rows
    return max(1, _LARGE_GROUP_BYTES // bytes_per_row) if bytes_per_row > _LARGE_ROW_BYTES else None
