"""Scope of a refresh: read and replace the rows of touched entities, or of all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from clew.index.encoding import KEY_SEPARATOR
from clew.lake.data_files import DataFile, FileWriter, read_batches
from clew.lake.lake import ActiveFile, BatchId, Lake, active_files, replace_files
from clew.lake.schemas import LARGE_COLUMNS
from clew.lake.storage import open_parquet
from clew.pipeline.spark.dataframes import arrow_schema, read_table_files
from clew.pipeline.worker_reports import REPORT_SCHEMA, WorkerReport, collect_reports, encode_report

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
EDGE_SET: Final = "edge_set"
# Runs, jobs and datasets with results of data quality tests.
TESTER: Final = "tester"
SESSION: Final = "session"
OPERATION_RUN: Final = "operation_run"

# A kind of touched entities, or keys.
Unit: TypeAlias = str | pa.Table
# Divides rows among tables.
Split: TypeAlias = Callable[[pa.Table], dict[str, pa.Table]]
T = TypeVar("T")

# Small files keep the rewrite of a few rows cheap.
_ROWS_PER_FILE: Final = 32_000
_SMALL_FILE_ROWS: Final = 16_000
# Above this number, small files are merged with the next replacement.
_MAX_SMALL_FILES: Final = 8
# Text of a null key, which no name contains.
_NULL: Final = "\x00"


class _Match(NamedTuple):
    """A file with rows of touched entities, and which of its rows these are."""

    file: ActiveFile
    mask: pa.BooleanArray


class RefreshScope:
    """Tables of a lake during a refresh.

    `units` are the keys of touched entities by kind, such as runs or jobs; None if all rows are computed. Rows of
    touched entities are few: they are read and written in this process, because Spark needs longer to plan that than
    to do it. If `is_small`, this is true of all rows.
    """

    def __init__(
        self, spark: SparkSession, lake: Lake, units: Mapping[str, pa.Table] | None, batch: BatchId, *, is_small: bool
    ) -> None:
        self.spark = spark
        self.lake = lake
        self.units = units
        self.is_local = is_small or units is not None
        self._batch = batch
        # By table, until it is changed: its files, and its rows by keys.
        self._cache: defaultdict[str, dict[object, Any]] = defaultdict(dict)
        # Canonical names of datasets, set by the refresh.
        self.aliases: DataFrame

    def keys(self, unit: Unit) -> pa.Table:
        """Return the keys of touched entities of a kind."""
        return unit if isinstance(unit, pa.Table) else (self.units or {})[unit]

    def is_touched(self, unit: Unit) -> bool:
        """Return whether any entity of this kind is touched."""
        return self.units is None or self.keys(unit).num_rows > 0

    def rows(self, table: str, unit: Unit, *columns: str, select: Sequence[str] = ()) -> DataFrame:
        """Read the rows of touched entities; `columns` of the table contain their keys.

        If many rows are read, `select` limits the columns that are read.
        """
        if self.units is None:
            return self.all_rows(table)
        keys = self.keys(unit)
        return self._cached(
            table,
            ("rows", id(keys), columns, *select),
            lambda: self._to_dataframe(self.arrow_rows(table, keys, columns, select)),
        )

    def arrow_rows(self, table: str, unit: Unit, columns: Sequence[str], select: Sequence[str] = ()) -> pa.Table:
        """Read the rows of touched entities into this process."""
        schema = self._table_files(table).schema
        schema = pa.schema([schema.field(name) for name in select]) if select else schema
        matches = self._find_matches(table, self.keys(unit), tuple(columns))
        tables = [_read_file(self._path(table, match.file), schema).filter(match.mask) for match in matches]
        return pa.concat_tables([schema.empty_table(), *tables])

    def rows_of_others(
        self, table: str, unit: Unit, columns: Sequence[str], other: Unit, other_columns: Sequence[str]
    ) -> DataFrame:
        """Read the rows of touched entities of one kind, except those of touched entities of another kind."""
        return self._to_dataframe(drop_keys(self.arrow_rows(table, unit, columns), self.keys(other), other_columns))

    def all_rows(self, table: str) -> DataFrame:
        """Read all rows of a table."""
        schema, files = self._table_files(table).schema, self._table_files(table).files
        paths = [self._path(table, file) for file in files]
        if not self.is_local:
            return read_table_files(self.spark, self.lake, paths, from_arrow_schema(schema))
        return self._cached(
            table,
            "rows",
            lambda: self._to_dataframe(
                pa.concat_tables([schema.empty_table(), *(_read_file(path, schema) for path in paths)])
            ),
        )

    def replace(self, table: str, rows: DataFrame, unit: Unit, *columns: str) -> None:
        """Replace the rows of touched entities."""
        if self.units is None:
            self.overwrite(table, rows)
        elif self.is_touched(unit):
            self.replace_files(table, self._write(rows, partial(_one_table, table)), unit, columns)

    def replace_flagged(self, flag: str, tables: tuple[str, str], rows: DataFrame, unit: Unit, *columns: str) -> None:
        """Replace the rows of touched entities in two tables: rows with the flag belong to the second one."""
        if not self.is_touched(unit):
            return
        files = self._write(rows, partial(_split_by_flag, flag, tables))
        for table in tables:
            written = [file for file in files if file.table == table]
            if self.units is None:
                self.overwrite_files(table, arrow_schema(rows.drop(flag).schema), written)
            else:
                self.replace_files(table, written, unit, columns)

    def replace_files(self, table: str, written: list[DataFile], unit: Unit, columns: Sequence[str]) -> None:
        """Replace the rows of touched entities by the rows of files. Files without such rows are not rewritten."""
        masks = {match.file: match.mask for match in self._find_matches(table, self.keys(unit), tuple(columns))}
        small = self._table_files(table).small_files()
        merged = [file for file in small if file in masks or len(small) > _MAX_SMALL_FILES]
        groups = [merged, *([file] for file in masks if file not in merged)]
        kept = [file for group in groups for file in self._rewrite(table, group, masks)]
        removed = [file for group in groups for file in group]
        replace_files(self.lake, table, removed, [*written, *kept], is_data_change=True)
        self._cache.pop(table, None)

    def _rewrite(
        self, table: str, files: Sequence[ActiveFile], masks: Mapping[ActiveFile, pa.BooleanArray]
    ) -> list[DataFile]:
        """Write the rows of files, except those of touched entities, to new files."""
        schema = self._table_files(table).schema
        rows = [schema.empty_table()]
        for file in files:
            stored = _read_file(self._path(table, file), schema)
            rows.append(stored.filter(pc.invert(masks[file])) if file in masks else stored)
        return write_rows(str(self.lake.root), table, pa.concat_tables(rows))

    def overwrite(self, table: str, rows: DataFrame) -> None:
        """Replace all rows of a table."""
        self.overwrite_files(table, arrow_schema(rows.schema), self._write(rows, partial(_one_table, table)))

    def overwrite_files(self, table: str, schema: pa.Schema, files: list[DataFile]) -> None:
        """Replace all rows of a table by the rows of files; create the table if needed."""
        self.lake.replace(table, schema, files, self._batch)
        self._cache.pop(table, None)

    def _write(self, rows: DataFrame, split: Split) -> list[DataFile]:
        """Write rows to files of the tables into which `split` divides them, without committing them."""
        root = str(self.lake.root)
        if self.is_local:
            parts = split(rows.toArrow().cast(arrow_schema(rows.schema)))
            return [file for table, part in parts.items() for file in write_rows(root, table, part)]
        order = [F.col(name).isNotNull() if is_flag else F.col(name) for name, is_flag in _file_order(rows.columns)]
        ordered = rows.sortWithinPartitions(*order) if order else rows
        return collect_reports(ordered.mapInArrow(_WriteRows(root, split), REPORT_SCHEMA)).files

    def _find_matches(self, table: str, keys: pa.Table, columns: tuple[str, ...]) -> list[_Match]:
        def find() -> tuple[pa.Table, list[_Match]]:
            candidates = self._table_files(table).prune(keys, columns)
            masks = ((file, _find_rows(self._path(table, file), _KeyFilter(k, columns))) for file, k in candidates)
            # With the keys, so that their id is not reused.
            return keys, [_Match(file, mask) for file, mask in masks if mask is not None]

        return self._cached(table, ("matches", id(keys), columns), find)[1]

    def _table_files(self, table: str) -> _TableFiles:
        return self._cached(table, "files", lambda: _TableFiles.of(self.lake, table))

    def _cached(self, table: str, key: object, compute: Callable[[], T]) -> T:
        """Return a value that is computed once per version of a table."""
        cache = self._cache[table]
        if key not in cache:
            cache[key] = compute()
        value: T = cache[key]
        return value

    def _to_dataframe(self, rows: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(rows, from_arrow_schema(rows.schema))

    def _path(self, table: str, file: ActiveFile) -> str:
        return str(self.lake.root / table / file.name)


class _TableFiles:
    """Files of a table and their statistics."""

    def __init__(
        self, schema: pa.Schema, files: Sequence[ActiveFile], statistics: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.schema = schema
        self.files = files
        self._statistics = statistics

    @classmethod
    def of(cls, lake: Lake, table: str) -> _TableFiles:
        """Read the newest version of a table."""
        delta = lake.require_table(table)
        statistics = {row["path"]: row for row in pa.table(delta.get_add_actions(flatten=True)).to_pylist()}
        return cls(pa.schema(delta.schema().to_arrow()), active_files(delta), statistics)

    def small_files(self) -> list[ActiveFile]:
        """Return the files with few rows."""
        return [file for file in self.files if self._statistics[file.name]["num_records"] < _SMALL_FILE_ROWS]

    def prune(self, keys: pa.Table, columns: Sequence[str]) -> Iterator[tuple[ActiveFile, pa.Table]]:
        """Yield the files that may contain rows of keys, each with these keys."""
        keys = keys.combine_chunks()
        for file in self.files if keys.num_rows else ():
            possible = keys
            for index, column in enumerate(columns):
                mask = self._may_contain(file, column, possible.column(index))
                possible = possible if mask is None else possible.filter(mask)
            if possible.num_rows:
                yield file, possible

    def _may_contain(self, file: ActiveFile, column: str, values: pa.ChunkedArray) -> pa.ChunkedArray | None:
        """Return which values a column of a file may contain; None if its statistics do not exclude any."""
        statistics = self._statistics[file.name]
        low, high, nulls = (statistics.get(f"{name}.{column}") for name in ("min", "max", "null_count"))
        if nulls is None:
            return None
        if isinstance(low, str) and isinstance(high, str):
            is_possible = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
        else:
            is_possible = pc.if_else(values.is_valid(), nulls < statistics["num_records"], pa.scalar(None, pa.bool_()))
        return pc.fill_null(is_possible, nulls > 0)


class _KeyFilter:
    """Finds the rows of keys. Keys may be null, such as the version of a dataset."""

    def __init__(self, keys: pa.Table, columns: Sequence[str]) -> None:
        self._keys = keys
        self._columns = list(columns)
        values = {name: keys.column(index).cast(pa.string()).unique() for index, name in enumerate(columns)}
        # The most selective column first: most files need no other one.
        self._values = sorted(values.items(), key=lambda item: -len(item[1]))

    def mask(self, read: Callable[[str], pa.Array]) -> pa.BooleanArray | None:
        """Return for each row whether it has one of the keys; None if there is no such row. `read` reads a column."""
        read_columns: dict[str, pa.Array] = {}
        mask = None
        for name, values in self._values:
            read_columns[name] = read(name).cast(pa.string())
            is_in = pc.is_in(read_columns[name], value_set=values)
            mask = is_in if mask is None else pc.and_(mask, is_in)
            if not mask.true_count:
                return None
        if len(self._columns) == 1:
            return mask
        texts = _key_texts([read_columns[name].filter(mask) for name in self._columns])
        mask = pc.replace_with_mask(mask, mask, pc.is_in(texts, value_set=_key_texts(self._keys.columns)))
        return mask if mask.true_count else None


def _key_texts(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Return the key of each row as one text."""
    values = [pc.fill_null(column.cast(pa.string()), _NULL) for column in columns]
    text = values[0] if len(values) == 1 else pc.binary_join_element_wise(*values, KEY_SEPARATOR)
    return text.combine_chunks() if isinstance(text, pa.ChunkedArray) else text


def drop_keys(rows: pa.Table, keys: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the rows that have none of the keys."""
    mask = _KeyFilter(keys, columns).mask(lambda column: rows[column].combine_chunks())
    return rows if mask is None else rows.filter(pc.invert(mask))


def _find_rows(path: str, keys: _KeyFilter) -> pa.BooleanArray | None:
    with pq.ParquetFile(open_parquet(path)) as file:
        return keys.mask(lambda column: file.read([column]).column(0).combine_chunks())


def _read_file(path: str, schema: pa.Schema) -> pa.Table:
    """Read the columns of a schema from a data file."""
    return pa.Table.from_batches(read_batches(path, schema), schema)


def _file_order(columns: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the columns by which the rows of a file are sorted, each with whether only its presence counts.

    Recent rows are together, because these change. Current facets of datasets change with each event, those of versions
    and runs do not: they are in different files.
    """
    is_of_datasets = {"type", "dataset_version"} <= {*columns}
    order = [("type", False), ("dataset_version", True)] if is_of_datasets else []
    return order + [(name, False) for name in ("last_seq", "seq") if name in columns][:1]


def write_rows(root: str, table: str, rows: pa.Table) -> list[DataFile]:
    """Write rows to files of limited size, without committing them."""
    order = {name: rows[name].is_valid() if is_flag else rows[name] for name, is_flag in _file_order(rows.column_names)}
    if order:
        rows = rows.take(pc.sort_indices(pa.table(order), sort_keys=[(name, "ascending") for name in order]))
    batches = rows.combine_chunks().to_batches(_ROWS_PER_FILE)
    return list(_write_batches(root, batches, partial(_one_table, table)))


def _write_batches(root: str, batches: Iterable[pa.RecordBatch], split: Split) -> Iterator[DataFile]:
    """Write batches to files of the tables into which `split` divides them."""
    writer, count = FileWriter(root, LARGE_COLUMNS), 0
    for batch in batches:
        for table, rows in split(pa.Table.from_batches([batch])).items():
            for part in rows.to_batches():
                yield from writer.add({table: part})
        count += batch.num_rows
        if count >= _ROWS_PER_FILE:
            yield from writer.flush()
            count = 0
    yield from writer.flush()


def _one_table(table: str, rows: pa.Table) -> dict[str, pa.Table]:
    """All rows belong to one table."""
    return {table: rows}


def _split_by_flag(flag: str, tables: tuple[str, str], rows: pa.Table) -> dict[str, pa.Table]:
    """Rows without the flag belong to the first table, rows with it to the second. The flag is not stored."""
    is_flagged, stored = rows[flag], rows.drop_columns([flag])
    masks = pc.invert(is_flagged), is_flagged
    return {table: stored.filter(mask) for table, mask in zip(tables, masks, strict=True)}


class _WriteRows:
    """Writes rows to files of limited size on a worker."""

    def __init__(self, root: str, split: Split) -> None:
        self._root = root
        self._split = split

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield encode_report(WorkerReport([*_write_batches(self._root, batches, self._split)]), self._root)


def times(rows: DataFrame, *columns: str) -> DataFrame:
    """Convert columns from microseconds since 1970 to timestamps."""
    return rows.withColumns({column: F.timestamp_micros(column) for column in columns})
