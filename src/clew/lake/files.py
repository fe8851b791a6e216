"""Parquet files written by Spark workers; the driver commits them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clew.lake.statistics import compute_statistics, written_footer
from clew.lake.storage import open_storage
from clew.lake.tables import HIGH_CARDINALITY_COLUMNS

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
        name = f"part-{uuid.uuid4().hex}.parquet"
        large = self._large.get(table, frozenset())
        footers: list[pq.FileMetaData] = []

        def write(sink: Any) -> None:
            with pq.ParquetWriter(
                sink,
                rows.schema,
                compression=_COMPRESSION,
                use_dictionary=[name for name in rows.schema.names if name not in large | HIGH_CARDINALITY_COLUMNS],
                write_statistics=[name for name in rows.schema.names if name not in large],
            ) as writer:
                writer.write_table(rows, row_group_size=_rows_per_group(rows))
            footers.append(written_footer(writer))

        size = open_storage(self.root).write_parquet(f"{table}/{name}", write)
        stats = compute_statistics(rows, large, footers[-1])
        return DataFile(table, name, size, rows.num_rows, stats, int(time.time() * 1000))


def _rows_per_group(rows: pa.Table) -> int | None:
    """Return the rows per row group; None for the writer's default."""
    bytes_per_row = rows.nbytes // rows.num_rows
    return max(1, _LARGE_GROUP_BYTES // bytes_per_row) if bytes_per_row > _LARGE_ROW_BYTES else None
