"""Rewrite of several files of a table into one sorted file."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from clew.home import LakeLocation
from clew.lake.exchange import ActiveFile
from clew.lake.files import DataFile
from clew.lake.statistics import compute_statistics, written_footer
from clew.lake.storage import open_storage
from clew.lake.tables import HIGH_CARDINALITY_COLUMNS, Table

# A look-up of one entity reads one row group.
_MAX_ROWS_PER_GROUP = 64 << 10
_MAX_BYTES_PER_GROUP = 16 << 20
# Measured on generated events, bytes per event: 800 at level 1, 770 at level 6 (2x CPU), 750 at level 9 (3x CPU);
# 1,440 unsorted.
_COMPRESSION_LEVEL = 1


class SizedFile(Struct, frozen=True):
    """A file with its size in memory and whether its rows are sorted."""

    file: ActiveFile
    uncompressed_bytes: int
    is_sorted: bool


@lru_cache(maxsize=1 << 14)
def inspect_file(folder: LakeLocation, file: ActiveFile) -> SizedFile:
    """Read size and sort order from the footer of a file; cached, because files of the lake never change."""
    footer = pq.read_metadata(open_storage(folder).parquet_source(file.name))
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    return SizedFile(
        file, sum(group.total_byte_size for group in groups), all(group.sorting_columns for group in groups)
    )


def rewrite_sorted(folder: LakeLocation, table: Table, schema: pa.Schema, files: Iterable[ActiveFile]) -> DataFile:
    """Write the rows of `files` as one file sorted by the table's sort columns, without committing it."""
    rows = pa.concat_tables(read_rows(folder, file.name, schema) for file in files).combine_chunks()
    return write_sorted(folder, table, rows)


def write_sorted(folder: LakeLocation, table: Table, rows: pa.Table) -> DataFile:
    """Write rows as one file sorted by the table's sort columns, without committing it."""
    order = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in table.sort_columns])
    rows_per_group = _rows_per_group(rows)
    footers: list[pq.FileMetaData] = []

    def write(sink: Any) -> None:
        with _writer(sink, table, rows.schema) as writer:
            for start in range(0, rows.num_rows, rows_per_group):
                writer.write_table(rows.take(order.slice(start, rows_per_group)), row_group_size=rows_per_group)
        footers.append(written_footer(writer))

    name = f"part-{uuid.uuid4().hex}.parquet"
    size = open_storage(folder).write_parquet(name, write)
    stats = compute_statistics(rows, table.large_text_columns, footers[-1])
    return DataFile(table.name, name, size, rows.num_rows, stats, int(time.time() * 1000))


def read_rows(folder: LakeLocation, name: str, schema: pa.Schema) -> pa.Table:
    """Read the rows of a file; columns that are newer than the file are null."""
    rows = pq.read_table(open_storage(folder).parquet_source(name), partitioning=None)
    missing = [field for field in schema if field.name not in rows.schema.names]
    for field in missing:
        rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def _writer(sink: Any, table: Table, schema: pa.Schema) -> pq.ParquetWriter:
    column_names = [name for name in schema.names if name not in table.large_text_columns]
    ordering = [(name, "ascending") for name in table.sort_columns]
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=_COMPRESSION_LEVEL,
        use_dictionary=[name for name in column_names if name not in HIGH_CARDINALITY_COLUMNS],
        write_statistics=column_names,
        sorting_columns=pq.SortingColumn.from_ordering(schema, ordering, null_placement="at_end"),
    )


def _rows_per_group(rows: pa.Table) -> int:
    bytes_per_row: int = max(1, rows.nbytes // max(1, rows.num_rows))
    return max(1, min(_MAX_ROWS_PER_GROUP, _MAX_BYTES_PER_GROUP // bytes_per_row))
