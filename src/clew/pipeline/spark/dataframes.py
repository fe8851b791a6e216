"""Lake tables as DataFrames, DataFrames as table files, concurrent Spark actions."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import cache, reduce
from types import TracebackType
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from clew.data_dir import LakeLocation
from clew.errors import ClewError
from clew.events.facets import FacetOrder
from clew.lake.data_files import DataFile
from clew.lake.facet_parsers import REF_MARKER, ROW_SEPARATOR, LargeFacetInfo, inspect_facet
from clew.lake.lake import Lake
from clew.lake.schemas import FACET_TABLES, LARGE_FACETS, LINEAGE_EVENTS, TABLES_BY_NAME
from clew.lake.storage import open_parquet
from clew.pipeline.progress import ProgressReporter
from clew.pipeline.worker_reports import REPORT_SCHEMA, WorkerReport, collect_reports, tasks_of
from clew.pipeline.workers import EventTask, TableWriteTask

EVENT_TABLES: Final[dict[str, StructType]] = {
    name: from_arrow_schema(table.schema) for name, table in TABLES_BY_NAME.items()
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """Convert a Spark schema to Arrow, with times in UTC."""
    return to_arrow_schema(schema, timezone="UTC")


# Rows per Arrow batch to the JVM; facets are up to 64 KB.
_ROWS_PER_BATCH = 500
_FILES_PER_TASK = 8
_REF_COLUMNS: Final = "uuid string, facet_ref string"


def read_parquet_in_workers(spark: SparkSession, files: Sequence[str], schema: StructType) -> DataFrame:
    """Read files on the workers; columns that are newer than a file are null."""
    groups = _groups(files)
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(_ReadFiles(groups, arrow_schema(schema)), schema)


def locate_large_facets(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Return the reference (`file#row`) of each row of `large_facets`."""
    groups = _groups(files)
    return spark.range(0, len(groups), 1, len(groups)).mapInArrow(_LocateLargeFacets(groups), _REF_COLUMNS)


def _groups(files: Sequence[str]) -> list[Sequence[str]]:
    return [files[start : start + _FILES_PER_TASK] for start in range(0, len(files), _FILES_PER_TASK)]


class _ReadFiles:
    """Reads groups of files on a worker."""

    def __init__(self, groups: Sequence[Sequence[str]], schema: pa.Schema) -> None:
        self._groups = groups
        self._schema = schema

    def __call__(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group in tasks_of(task_batches, self._groups):
            for path in group:
                yield from self._batches(path)

    def _batches(self, path: str) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(open_parquet(path)) as file:
            present = [name for name in self._schema.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(_ROWS_PER_BATCH, columns=present):
                yield pa.RecordBatch.from_arrays(list(self._columns(batch)), schema=self._schema)

    def _columns(self, batch: pa.RecordBatch) -> Iterator[pa.Array]:
        for field in self._schema:
            if field.name in batch.schema.names:
                yield batch.column(field.name).cast(field.type)
            else:
                yield pa.nulls(batch.num_rows, field.type)


class _LocateLargeFacets:
    """Builds the references of `large_facets` rows on a worker."""

    def __init__(self, groups: Sequence[Sequence[str]]) -> None:
        self._groups = groups

    def __call__(self, task_batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for group in tasks_of(task_batches, self._groups):
            for path in group:
                with pq.ParquetFile(open_parquet(path)) as file:
                    uuids = file.read(columns=["uuid"])["uuid"].to_pylist()
                refs = [f"{REF_MARKER}{path}{ROW_SEPARATOR}{row}" for row in range(len(uuids))]
                yield pa.RecordBatch.from_pydict({"uuid": pa.array(uuids, pa.string()), "facet_ref": refs})


S = TypeVar("S")
T = TypeVar("T")

# One per core of a small machine. A single job for all tables needs twice the time to optimise.
_MAX_CONCURRENT_JOBS = 2


class _JobPool(ThreadPoolExecutor):
    """Threads that run Spark actions. If the `with` block fails or is interrupted, their jobs are cancelled."""

    def __init__(self, spark: SparkSession, max_workers: int) -> None:
        super().__init__(max_workers, thread_name_prefix="clew-job")
        self._context = spark.sparkContext
        self._group = f"clew-{uuid.uuid4()}"
        # Threads inherit the local properties, such as the scheduler pool.
        self._inherit = inheritable_thread_target(spark)

    def submit_action(self, run: Callable[[S], T], item: S) -> Future[T]:
        """Submit an action on an item."""
        return self.submit(self._inherit(self._run), run, item)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.shutdown(wait=False, cancel_futures=True)
            # A thread that plans a query starts its job later, which `cancelJobGroup` of PySpark would not cancel.
            self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)  # noqa: SLF001
        else:
            self.shutdown()

    def _run(self, run: Callable[[S], T], item: S) -> T:
        self._context.setJobGroup(self._group, "clew", interruptOnCancel=True)
        return run(item)


def run_concurrently(
    run: Callable[[DataFrame], T], frames: Mapping[str, DataFrame], on_progress: Callable[[int, int], object]
) -> dict[str, T]:
    """Apply `run` to each DataFrame concurrently; the first error cancels the other jobs."""
    with _JobPool(next(iter(frames.values())).sparkSession, _MAX_CONCURRENT_JOBS) as pool:
        jobs = {name: pool.submit_action(run, frame) for name, frame in frames.items()}
        for done, job in enumerate(as_completed(jobs.values()), 1):
            job.result()
            on_progress(done, len(jobs))
    return {name: job.result() for name, job in jobs.items()}


def map_ordered(run: Callable[[S], T], items: Iterable[S], spark: SparkSession) -> Iterator[T]:
    """Apply `run` to each item with one job per core; yield results in order, with a bounded number pending."""
    cores = spark.sparkContext.defaultParallelism
    running: deque[Future[T]] = deque()
    with _JobPool(spark, cores) as pool:
        for item in items:
            running.append(pool.submit_action(run, item))
            if len(running) > cores:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


# Name of the cached DataFrame.
LARGE_FACET_INFO: Final = "large_facet_info"
# Metadata of a large facet; null for inline facets.
_INFO_COLUMNS: Final = {
    "text_md5": "string",
    "is_deletion": "boolean",
    "has_row_count": "boolean",
    "has_entries": "boolean",
}
_SCHEMA: Final = f"uuid string, facet_ref string, {', '.join(map(' '.join, _INFO_COLUMNS.items()))}"


def large_facet_info(facet_tables: Iterable[DataFrame], refs: DataFrame) -> DataFrame:
    """Build one row per large facet with its reference and metadata; each body is read once, by a worker."""
    large_facets = (
        table.where(F.col("large_facet_bytes").isNotNull()).select("uuid", "name") for table in facet_tables
    )
    inspected = (
        reduce(DataFrame.unionByName, large_facets).join(refs, "uuid", how="inner").mapInArrow(_inspect_facets, _SCHEMA)
    )
    # Equal texts share one reference, so that each is parsed once.
    facet_ref = F.min("facet_ref").over(Window.partitionBy("text_md5"))
    return inspected.select("uuid", facet_ref.alias("body"), *_INFO_COLUMNS)


def with_facet_refs(facets: DataFrame, info: DataFrame) -> DataFrame:
    """Replace the null facets of a facet table by references."""
    joined = facets.join(F.broadcast(info), "uuid", how="left")
    return joined.withColumn("facet", F.coalesce("facet", "body")).drop("body")


def with_null_facet_info(facets: DataFrame) -> DataFrame:
    """Add null metadata columns to the facet table of a lake without large facets."""
    return facets.withColumns({name: F.lit(None).cast(kind) for name, kind in _INFO_COLUMNS.items()})


def _inspect_facets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        uuids, names, refs = (batch.column(name) for name in ("uuid", "name", "facet_ref"))
        info = [inspect_facet(name.as_py(), facet_ref.as_py()) for name, facet_ref in zip(names, refs, strict=True)]
        columns = zip(*info, strict=True) if info else [[]] * len(LargeFacetInfo._fields)
        yield pa.RecordBatch.from_pydict(
            {"uuid": uuids, "facet_ref": refs, **dict(zip(LargeFacetInfo._fields, columns, strict=True))}
        )


_MAX_ONE_PARTITION_BYTES = 16 << 20
# Complete events; transforms only use the other columns.
_UNUSED_COLUMNS = frozenset({"event", "body"})
_EVENT_TIME_COLUMNS = {
    LINEAGE_EVENTS.name: "event_time",
    **{table.name: "lineage_event_time" for table in FACET_TABLES},
}


def event_dataframes(spark: SparkSession, lake: Lake) -> dict[str, DataFrame]:
    """Build a DataFrame per event table, with references instead of large facets."""
    # In reverse commit order, so that a visible row finds everything it refers to.
    tables = {name: _source_table(spark, lake, name, schema) for name, schema in reversed(EVENT_TABLES.items())}
    facets = {table.name: tables[table.name] for table in FACET_TABLES}
    if lake.files(LARGE_FACETS.name):
        info = large_facet_info(facets.values(), _large_facet_refs(spark, lake, tables[LARGE_FACETS.name]))
        tables |= {LARGE_FACET_INFO: info, **{name: with_facet_refs(table, info) for name, table in facets.items()}}
    else:
        tables |= {name: with_null_facet_info(table) for name, table in facets.items()}
    return {name: _with_precedence(name, table, lake.facet_order) for name, table in tables.items()}


def write_events(ranges: DataFrame, task: EventTask) -> WorkerReport:
    """Decode ranges of the log and write the rows to files on the workers, without committing them."""
    return collect_reports(ranges.mapInArrow(task, REPORT_SCHEMA))


def write_tables(tables: Mapping[str, DataFrame], root: LakeLocation, progress: ProgressReporter) -> list[DataFile]:
    """Write the rows of derived tables to files, without committing them."""
    reports = {name: rows.mapInArrow(TableWriteTask(str(root), name), REPORT_SCHEMA) for name, rows in tables.items()}
    return [file for report in run_concurrently(collect_reports, reports, progress).values() for file in report.files]


def table_rows(spark: SparkSession, lake: Lake, name: str, schema: StructType) -> DataFrame:
    """Read a table: local files with Spark, S3 files in Python workers."""
    files = lake.files(name)
    if not files:
        return spark.createDataFrame([], schema)
    return (
        spark.read.schema(schema).parquet(*files)
        if lake.storage.is_local
        else read_parquet_in_workers(spark, files, schema)
    )


def _source_table(spark: SparkSession, lake: Lake, name: str, schema: StructType) -> DataFrame:
    used = StructType([field for field in schema.fields if field.name not in _UNUSED_COLUMNS])
    table = table_rows(spark, lake, name, used)
    # One partition avoids shuffles, which cost more than they gain on small tables.
    return table.coalesce(1) if lake.size(name) < _MAX_ONE_PARTITION_BYTES else table


def _large_facet_refs(spark: SparkSession, lake: Lake, large_facets: DataFrame) -> DataFrame:
    """Build the reference (`file#row`) of each large facet."""
    if not lake.storage.is_local:
        return locate_large_facets(spark, lake.files(LARGE_FACETS.name))
    folder = lake.root / LARGE_FACETS.name
    facet_ref = F.concat(
        F.lit(f"{REF_MARKER}{folder}/"), "_metadata.file_name", F.lit(ROW_SEPARATOR), "_metadata.row_index"
    )
    return large_facets.select("uuid", facet_ref.alias("facet_ref"))


def _with_precedence(name: str, table: DataFrame, order: FacetOrder) -> DataFrame:
    """Add the column `precedence`, which orders facets and assertions: the greatest wins."""
    if name not in _EVENT_TIME_COLUMNS:
        return table
    columns = ("seq", _EVENT_TIME_COLUMNS[name])
    return table.withColumn("precedence", F.struct(*(columns if order is FacetOrder.RECEIVED else reversed(columns))))


Tables = Mapping[str, DataFrame]


class LakeTables(Mapping[str, DataFrame]):
    """Tables by name, opened on first access with their Delta schema."""

    def __init__(self, spark: SparkSession, lake: Lake, names: tuple[str, ...]) -> None:
        self._names = names
        self._table = cache(lambda name: _derived_table(spark, lake, name))

    def __getitem__(self, name: str) -> DataFrame:
        if name not in self._names:
            raise KeyError(name)
        return self._table(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _derived_table(spark: SparkSession, lake: Lake, name: str) -> DataFrame:
    table = lake.table(name)
    if table is None:
        hint = "Derived tables are written at the end of `clew pipeline run`."
        raise ClewError(f"The lake {lake.root} has no table {name} yet.", hint=hint)
    schema = from_arrow_schema(pa.schema(table.schema().to_arrow()))
    return table_rows(spark, lake, name, schema)
