"""Scope of a refresh: read and replace the rows of touched entities, or of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from clew.data_dir import LakeLocation
from clew.index.encoding import KEY_SEPARATOR
from clew.lake.data_files import DataFile, FileWriter
from clew.lake.lake import ActiveFile, BatchId, Lake, active_files, replace_files
from clew.lake.schemas import LARGE_COLUMNS
from clew.lake.storage import open_parquet
from clew.pipeline.spark.dataframes import arrow_schema, read_parquet_in_workers
from clew.pipeline.worker_reports import (
    REPORT_SCHEMA,
    WorkerReport,
    collect_reports,
    encode_report,
    run_tasks,
    tasks_of,
)

# Kinds of touched entities.
RUN: Final = "run"
JOB: Final = "job"
# Jobs, and the null job of edges that no job asserts.
EDGE_JOB: Final = "edge_job"
DATASET: Final = "dataset"
# Datasets with declared versions.
DECLARED: Final = "declared"
# Runs, jobs and datasets that assert lineage.
ASSERTER: Final = "asserter"
SESSION: Final = "session"
OPERATION_RUN: Final = "operation_run"

# Small files keep the rewrite of a few rows cheap.
_ROWS_PER_FILE: Final = 32_000
# Above this number, small files are merged with the next replacement.
_MAX_SMALL_FILES: Final = 8
_SMALL_FILE_BYTES: Final = 1 << 20
_FILES_PER_TASK: Final = 16
_MAX_LOCAL_FILES: Final = 16
_SMALL_TABLE_BYTES: Final = 8 << 20
# Text of a null key, which no name contains.
_NULL: Final = "\x00"


class RefreshScope:
    """Tables of a lake during a refresh.

    `units` are the keys of touched entities by kind, such as runs or jobs; None if all rows are computed. If
    `is_small`, rows are read, filtered and written in this process: Spark needs longer to plan that than to do it.
    """

    def __init__(
        self,
        spark: SparkSession,
        lake: Lake,
        units: Mapping[str, pa.Table] | None,
        batch: BatchId,
        *,
        is_small: bool,
    ) -> None:
        self.spark = spark
        self.lake = lake
        self.units = units
        self.is_small = is_small
        self._batch = batch
        # Canonical names of datasets, set by the refresh.
        self.aliases: DataFrame

    def is_touched(self, unit: str) -> bool:
        """Return whether any entity of this kind is touched."""
        return self.units is None or self.units[unit].num_rows > 0

    def rows(self, table: str, unit: str, *columns: str) -> DataFrame:
        """Read the rows of touched entities; `columns` of the table contain their keys."""
        if self.units is None:
            return self.all_rows(table)
        keys = self.units[unit]
        if self.is_small:
            return self._to_dataframe(table, self.arrow_rows(table, keys, columns))
        rows = self._read(table, self._files_with(table, keys, columns))
        return rows.join(*self._matching(rows, keys, columns), how="left_semi")

    def arrow_rows(self, table: str, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Read the rows of keys into this process."""
        schema = self._arrow_schema(table)
        filters = KeyFilter(keys, columns)
        files = self._files_with(table, keys, columns)
        tables = [filters.select(_read_file(self._path(table, file.name), schema)) for file in files]
        return pa.concat_tables([schema.empty_table(), *tables])

    def without_rows(
        self, table: str, unit: str, columns: Sequence[str], other_unit: str, other_columns: Sequence[str]
    ) -> DataFrame:
        """Read the rows of touched entities of one kind, except those of touched entities of another kind."""
        rows, keys = self.rows(table, unit, *columns), (self.units or {})[other_unit]
        return rows.join(*self._matching(rows, keys, other_columns), how="left_anti")

    def all_rows(self, table: str) -> DataFrame:
        """Read all rows of a table."""
        files = active_files(self.lake.require_table(table))
        if self.is_small and sum(file.size for file in files) < _SMALL_TABLE_BYTES:
            schema = self._arrow_schema(table)
            tables = [_read_file(self._path(table, file.name), schema) for file in files]
            return self._to_dataframe(table, pa.concat_tables([schema.empty_table(), *tables]))
        return self._read(table, files)

    def replace(self, table: str, rows: DataFrame, unit: str, *columns: str) -> None:
        """Replace the rows of touched entities."""
        if self.units is None:
            self.overwrite(table, rows)
        elif self.is_touched(unit):
            self.replace_files(table, self.write(table, rows), self.units[unit], columns)

    def replace_flagged(self, flag: str, tables: tuple[str, str], rows: DataFrame, unit: str, *columns: str) -> None:
        """Replace the rows of touched entities in two tables: rows with the flag belong to the second one."""
        if not self.is_touched(unit):
            return
        files = self._write(rows, _FlagSplit(flag, tables))
        for table in tables:
            written = [file for file in files if file.table == table]
            if self.units is None:
                self.overwrite_files(table, arrow_schema(rows.drop(flag).schema), written)
            else:
                self.replace_files(table, written, self.units[unit], columns)

    def replace_files(self, table: str, written: list[DataFile], keys: pa.Table, columns: Sequence[str]) -> None:
        """Replace the rows of keys by the rows of files."""
        affected = self._files_with(table, keys, columns)
        small = [file for file in self._small_files(table) if file not in affected]
        groups = [[file] for file in affected if file.size >= _SMALL_FILE_BYTES]
        groups.append([file for file in (*affected, *small) if file.size < _SMALL_FILE_BYTES])
        task = _DropKeys(
            self.lake.root, table, [group for group in groups if group], self._arrow_schema(table), keys, columns
        )
        kept = task.run_locally() if self.is_small else task.run(self.spark)
        replace_files(self.lake, table, [*affected, *small], [*written, *kept], is_data_change=True)

    def overwrite(self, table: str, rows: DataFrame) -> None:
        """Replace all rows of a table."""
        self.lake.replace(table, arrow_schema(rows.schema), self.write(table, rows), self._batch)

    def overwrite_files(self, table: str, schema: pa.Schema, files: list[DataFile]) -> None:
        """Replace all rows of a table by the rows of files; create the table if needed."""
        self.lake.replace(table, schema, files, self._batch)

    def write(self, table: str, rows: DataFrame) -> list[DataFile]:
        """Write rows to files of a table, without committing them."""
        return self._write(rows, _OneTable(table))

    def _write(self, rows: DataFrame, split: Callable[[pa.Table], dict[str, pa.Table]]) -> list[DataFile]:
        """Write rows to files of the tables into which `split` divides them."""
        # Recent rows together: these are the ones that change.
        order = next((column for column in ("last_seq", "seq") if column in rows.columns), None)
        if self.is_small:
            collected = rows.toArrow().cast(arrow_schema(rows.schema))
            parts = split(collected if order is None else collected.sort_by(order))
            return [file for table, part in parts.items() for file in write_rows(str(self.lake.root), table, part)]
        ordered = rows if order is None else rows.sortWithinPartitions(order)
        task = _WriteRows(str(self.lake.root), split)
        return collect_reports(ordered.mapInArrow(task, REPORT_SCHEMA)).files

    def read_files(self, table: str, names: Sequence[str], schema: StructType) -> DataFrame:
        """Read files in the folder of a table."""
        paths = [self._path(table, name) for name in names]
        if not paths:
            return self.spark.createDataFrame([], schema)
        if self.lake.storage.is_local:
            return self.spark.read.schema(schema).parquet(*paths)
        return read_parquet_in_workers(self.spark, paths, schema)

    def _read(self, table: str, files: Sequence[ActiveFile]) -> DataFrame:
        return self.read_files(table, [file.name for file in files], from_arrow_schema(self._arrow_schema(table)))

    def _matching(self, rows: DataFrame, keys: pa.Table, columns: Sequence[str]) -> tuple[DataFrame, Column]:
        names = [f"_{column}" for column in columns]
        units = self.spark.createDataFrame(keys.rename_columns(names))
        # Keys may be null, such as the version of a dataset.
        same = reduce(and_, (rows[column].eqNullSafe(units[name]) for column, name in zip(columns, names, strict=True)))
        return F.broadcast(units), same

    def _to_dataframe(self, table: str, rows: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(rows, from_arrow_schema(self._arrow_schema(table)))

    def _arrow_schema(self, table: str) -> pa.Schema:
        return pa.schema(self.lake.require_table(table).schema().to_arrow())

    def _path(self, table: str, name: str) -> str:
        return str(self.lake.root / table / name)

    def _files_with(self, table: str, keys: pa.Table, columns: Sequence[str]) -> list[ActiveFile]:
        """Return the files that contain rows of these keys."""
        files = active_files(self.lake.require_table(table))
        if keys.num_rows == 0 or not files:
            return []
        task = _FindKeys(str(self.lake.root / table), files, keys, columns)
        if len(files) <= _MAX_LOCAL_FILES:
            return [file for file in files if task.has_key(file.name)]
        count = -(-len(files) // _FILES_PER_TASK)
        found = self.spark.range(0, count, 1, count).mapInArrow(task, "name string").toArrow()
        names = set(found["name"].to_pylist())
        return [file for file in files if file.name in names]

    def _small_files(self, table: str) -> list[ActiveFile]:
        files = [file for file in active_files(self.lake.require_table(table)) if file.size < _SMALL_FILE_BYTES]
        return files if len(files) > _MAX_SMALL_FILES else []


class KeyFilter:
    """Selects or drops the rows of keys. Keys may be null, such as the version of a dataset."""

    def __init__(self, keys: pa.Table, columns: Sequence[str]) -> None:
        self._columns = list(columns)
        self._keys = _key_texts(keys, range(keys.num_columns))

    def mask(self, rows: pa.Table) -> pa.ChunkedArray:
        """Return for each row whether it has one of the keys."""
        return pc.is_in(_key_texts(rows, self._columns), value_set=self._keys)

    def select(self, rows: pa.Table) -> pa.Table:
        """Return the rows of the keys."""
        return rows.filter(self.mask(rows))

    def drop(self, rows: pa.Table) -> pa.Table:
        """Return the other rows."""
        return rows.filter(pc.invert(self.mask(rows)))

    @property
    def columns(self) -> list[str]:
        """Columns with the keys."""
        return self._columns


def _key_texts(rows: pa.Table, columns: Iterable[str | int]) -> pa.Array:
    """Return the key of each row as one text."""
    values = [pc.fill_null(rows.column(column).cast(pa.string()), _NULL) for column in columns]
    text = values[0] if len(values) == 1 else pc.binary_join_element_wise(*values, KEY_SEPARATOR)
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def _read_file(path: str, schema: pa.Schema) -> pa.Table:
    """Read a file; columns that are newer than the file are null."""
    rows = pq.ParquetFile(open_parquet(path)).read()
    columns = [
        rows[field.name].cast(field.type) if field.name in rows.column_names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


class _FindKeys:
    """Finds the files that contain one of the keys. Input rows are indices of groups of files."""

    def __init__(self, folder: str, files: Sequence[ActiveFile], keys: pa.Table, columns: Sequence[str]) -> None:
        self._folder = folder
        self._groups = [files[start : start + _FILES_PER_TASK] for start in range(0, len(files), _FILES_PER_TASK)]
        self._filter = KeyFilter(keys, columns)

    def __call__(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [
            file.name for group in tasks_of(task_batches, self._groups) for file in group if self.has_key(file.name)
        ]
        yield pa.RecordBatch.from_pydict({"name": pa.array(names, pa.string())})

    def has_key(self, name: str) -> bool:
        """Return whether a file contains one of the keys."""
        rows = pq.ParquetFile(open_parquet(f"{self._folder}/{name}")).read(self._filter.columns)
        return bool(pc.any(self._filter.mask(rows)).as_py())


class _DropKeys:
    """Writes the rows of groups of files without those of the keys. Input rows are indices of groups."""

    def __init__(
        self,
        root: LakeLocation,
        table: str,
        groups: Sequence[Sequence[ActiveFile]],
        schema: pa.Schema,
        keys: pa.Table,
        columns: Sequence[str],
    ) -> None:
        self._root = str(root)
        self._folder = str(root / table)
        self._table = table
        self._groups = groups
        self._schema = schema
        self._filter = KeyFilter(keys, columns)

    def run(self, spark: SparkSession) -> list[DataFile]:
        """Write the files in Spark tasks."""
        return run_tasks(spark, self, len(self._groups)).files if self._groups else []

    def run_locally(self) -> list[DataFile]:
        """Write the files in this process."""
        return [file for group in self._groups for file in self._write(group)]

    def __call__(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = [file for group in tasks_of(task_batches, self._groups) for file in self._write(group)]
        yield encode_report(WorkerReport(files=files), self._root)

    def _write(self, group: Sequence[ActiveFile]) -> list[DataFile]:
        rows = [self._filter.drop(_read_file(f"{self._folder}/{file.name}", self._schema)) for file in group]
        return write_rows(self._root, self._table, pa.concat_tables(rows))


def write_rows(root: str, table: str, rows: pa.Table) -> list[DataFile]:
    """Write rows to files of limited size, without committing them."""
    writer, files = FileWriter(root, LARGE_COLUMNS), []
    for start in range(0, rows.num_rows, _ROWS_PER_FILE):
        part = rows.slice(start, _ROWS_PER_FILE).combine_chunks()
        files += [file for batch in part.to_batches() for file in writer.add({table: batch})]
        files += writer.flush()
    return files


class _OneTable:
    """All rows belong to one table."""

    def __init__(self, table: str) -> None:
        self._table = table

    def __call__(self, rows: pa.Table) -> dict[str, pa.Table]:
        return {self._table: rows}


class _FlagSplit:
    """Rows without the flag belong to the first table, rows with it to the second. The flag is not stored."""

    def __init__(self, flag: str, tables: tuple[str, str]) -> None:
        self._flag = flag
        self._tables = tables

    def __call__(self, rows: pa.Table) -> dict[str, pa.Table]:
        is_flagged, stored = rows[self._flag], rows.drop_columns([self._flag])
        masks = pc.invert(is_flagged), is_flagged
        return {table: stored.filter(mask) for table, mask in zip(self._tables, masks, strict=True)}


class _WriteRows:
    """Writes rows to files of limited size."""

    def __init__(self, root: str, split: Callable[[pa.Table], dict[str, pa.Table]]) -> None:
        self._root = root
        self._split = split

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report, writer, count = WorkerReport(), FileWriter(self._root, LARGE_COLUMNS), 0
        for batch in batches:
            for table, rows in self._split(pa.Table.from_batches([batch])).items():
                for part in rows.to_batches():
                    report.files += writer.add({table: part})
            count += batch.num_rows
            if count >= _ROWS_PER_FILE:
                report.files += writer.flush()
                count = 0
        report.files += writer.flush()
        yield encode_report(report, self._root)


def times(rows: DataFrame, *columns: str) -> DataFrame:
    """Convert columns from microseconds since 1970 to timestamps."""
    return rows.withColumns({column: F.timestamp_micros(column) for column in columns})
