"""DataFrames of lake tables, and files of DataFrames."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from clew.events.facet_order import FacetOrder
from clew.home import LakeLocation
from clew.lake.delta import Lake
from clew.lake.facet_places import REF_MARKER, ROW_SEPARATOR
from clew.lake.files import DataFile
from clew.lake.tables import FACET_TABLES, LARGE_FACETS, LINEAGE_EVENTS
from clew.pipeline.fetching import locate_large_facets, read_parquet_in_workers
from clew.pipeline.large_facets import LARGE_FACET_INFO, large_facet_info, with_facet_refs, with_null_facet_info
from clew.pipeline.saying import ProgressReporter
from clew.pipeline.schemas import EVENT_TABLES
from clew.pipeline.side_by_side import run_concurrently
from clew.pipeline.telling import REPORT_SCHEMA, WorkerReport, collect_reports
from clew.pipeline.worker import EventWorker, TableWriteTask

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


def write_events(ranges: DataFrame, worker: EventWorker) -> WorkerReport:
    """Decode ranges of the log and write the rows to files on the workers, without committing them."""
    return collect_reports(ranges.mapInArrow(worker, REPORT_SCHEMA))


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
