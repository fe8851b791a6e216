"""Lake tables as DataFrames, DataFrames as table files, concurrent Spark actions."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from functools import cache, reduce
from operator import or_
from pathlib import Path
from types import TracebackType
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructType

from clew.errors import ClewError
from clew.events.facets import is_deleted
from clew.lake.data_files import read_batches
from clew.lake.facet_columns import REF_MARKER, ROW_SEPARATOR, resolve_ref
from clew.lake.lake import Lake
from clew.lake.scan import files_in_ranges
from clew.lake.schemas import LARGE_FACETS, TABLES_BY_NAME
from clew.lake.storage import open_parquet
from clew.pipeline.worker_reports import REPORT_SCHEMA, WorkerReport, collect_reports, tasks_of
from clew.pipeline.workers import EventTask

EVENT_TABLES: Final[dict[str, StructType]] = {
    name: from_arrow_schema(table.schema) for name, table in TABLES_BY_NAME.items()
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """Convert a Spark schema to Arrow, with times in UTC."""
    return to_arrow_schema(schema, timezone="UTC")


def spark_type(kind: pa.DataType) -> str:
    """Return the SQL text of the Spark type of an Arrow type."""
    return from_arrow_type(kind).simpleString()


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
                yield from read_batches(path, self._schema, _ROWS_PER_BATCH)


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


def run_concurrently(spark: SparkSession, actions: Sequence[Callable[[], T]], on_done: Callable[[], object]) -> list[T]:
    """Run Spark actions concurrently; the first error cancels the other jobs."""
    with _JobPool(spark, _MAX_CONCURRENT_JOBS) as pool:
        jobs = [pool.submit_action(lambda run: run(), action) for action in actions]
        for job in as_completed(jobs):
            job.result()
            on_done()
    return [job.result() for job in jobs]


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


# Whether a large facet deletes the facet of that name; null for inline facets.
_IS_DELETION: Final = "is_deletion"


def _inspect_facets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        flags = [is_deleted(resolve_ref(ref)) for ref in batch.column("facet_ref").to_pylist()]
        yield pa.RecordBatch.from_pydict({"uuid": batch.column("uuid"), _IS_DELETION: pa.array(flags, pa.bool_())})


def facet_rows(spark: SparkSession, lake: Lake, name: str, ranges: Sequence[tuple[int, int]]) -> DataFrame:
    """Read the facets of events within ranges of positions from a facet table, with `is_deletion` of large facets."""
    files = files_in_ranges(lake, name, ranges)
    in_ranges = reduce(or_, (F.col("seq").between(low, high) for low, high in ranges))
    rows = read_table_files(spark, lake, files, EVENT_TABLES[name]).where(in_ranges)
    large_files = files_in_ranges(lake, LARGE_FACETS.name, ranges)
    if not large_files:
        return rows.withColumn(_IS_DELETION, F.lit(None).cast("boolean"))
    located = rows.where(F.col("large_facet_bytes").isNotNull()).select("uuid")
    located = located.join(locate_large_facets(spark, large_files), "uuid", how="inner")
    # Each body is read by a worker.
    deletions = located.mapInArrow(_inspect_facets, f"uuid string, {_IS_DELETION} boolean")
    return rows.join(deletions, "uuid", how="left")


def write_events(ranges: DataFrame, task: EventTask) -> WorkerReport:
    """Decode ranges of the log and write the rows to files on the workers, without committing them."""
    return collect_reports(ranges.mapInArrow(task, REPORT_SCHEMA))


def local_uri(path: Path | str) -> str:
    """Return the URI of a local path: Spark would look for a plain path in the default file system of a cluster."""
    return f"file://{path}"


def read_table_files(spark: SparkSession, lake: Lake, files: Sequence[str], schema: StructType) -> DataFrame:
    """Read files: local files with Spark, S3 files in Python workers."""
    if not files:
        return spark.createDataFrame([], schema)
    return (
        spark.read.schema(schema).parquet(*map(local_uri, files))
        if lake.storage.is_local
        else read_parquet_in_workers(spark, files, schema)
    )


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
    return read_table_files(spark, lake, lake.files(name), schema)
