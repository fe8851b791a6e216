"""Rows into Parquet files, on the workers. What was written is told to the driver, which commits it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from clew.lake.statistics import footer_of, statistics
from clew.lake.storage import storage_at
from clew.lake.tables import DISTINCT_COLUMNS

# Rows are held until they make up this much, never until they are so many: an event may be 10 MB.
FLUSH_BYTES = 128 << 20
_CODEC = "zstd"
# Rows of megabytes stand in row groups of their own: who looks for one need not read the others.
_LARGE_ROW_BYTES = 64 << 10
_LARGE_GROUP_BYTES = 8 << 20


@dataclass(frozen=True)
class DataFile:
    """A Parquet file in a table's folder that no commit names yet."""

    table: str
    name: str
    size: int
    rows: int
    stats: str
    written_ms: int


class FileWriter:
    """Gathers rows by table and writes them as Parquet files below `root`."""

    def __init__(self, root: str, large: Mapping[str, frozenset[str]], *, flush_bytes: int = FLUSH_BYTES) -> None:
        self.root = root
        self._large = large
        self._flush_bytes = flush_bytes
        self._held: dict[str, list[pa.RecordBatch]] = {}
        self._held_bytes = 0

    def add(self, rows: Mapping[str, pa.RecordBatch]) -> Iterator[DataFile]:
        """Take rows; yields files as soon as enough has come together."""
        for table, batch in rows.items():
            if batch.num_rows:
                self._held.setdefault(table, []).append(batch)
                self._held_bytes += batch.nbytes
        if self._held_bytes >= self._flush_bytes:
            yield from self.flush()

    def flush(self) -> Iterator[DataFile]:
        """Write all that is held."""
        while self._held:
            table, batches = self._held.popitem()
            yield self._write(table, pa.Table.from_batches(batches))
        self._held_bytes = 0

    def _write(self, table: str, rows: pa.Table) -> DataFile:
        name = f"part-{uuid.uuid4().hex}.parquet"
        large = self._large.get(table, frozenset())
        footers: list[pq.FileMetaData] = []

        def write(where: Any) -> None:
            with pq.ParquetWriter(
                where,
                rows.schema,
                compression=_CODEC,
                use_dictionary=[name for name in rows.schema.names if name not in large | DISTINCT_COLUMNS],
                write_statistics=[name for name in rows.schema.names if name not in large],
            ) as writer:
                writer.write_table(rows, row_group_size=_rows_per_group(rows))
            footers.append(footer_of(writer))

        size = storage_at(self.root).write_parquet(f"{table}/{name}", write)
        stats = statistics(rows, large, footers[-1])
        return DataFile(table, name, size, rows.num_rows, stats, int(time.time() * 1000))


def _rows_per_group(rows: pa.Table) -> int | None:
    """How many rows a group takes; None leaves it to the writer."""
    bytes_per_row = rows.nbytes // rows.num_rows
    return max(1, _LARGE_GROUP_BYTES // bytes_per_row) if bytes_per_row > _LARGE_ROW_BYTES else None
