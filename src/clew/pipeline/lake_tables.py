"""Tables of the lake as DataFrames, and DataFrames into files of the lake."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from clew.events.facet_order import FacetOrder
from clew.home import LakePlace
from clew.lake.delta import Lake
from clew.lake.facet_places import BEFORE_PLACE, BEFORE_ROW
from clew.lake.files import DataFile
from clew.lake.tables import FACET_TABLES, LARGE_FACETS, LINEAGE_EVENTS
from clew.pipeline.fetching import fetched, fetched_places
from clew.pipeline.large_facets import LOOKS, looks, with_names, with_nothing_apart
from clew.pipeline.saying import Headway
from clew.pipeline.schemas import EVENT_TABLES
from clew.pipeline.side_by_side import side_by_side
from clew.pipeline.telling import TOLD, Told, told
from clew.pipeline.worker import EventWorker, RowWorker

_ONE_PARTITION_BYTES = 16 << 20
# Whole events: what follows from them follows from the other columns.
_NEVER_ASKED = frozenset({"event", "body"})
_IN_TURN = {LINEAGE_EVENTS.name: "event_time", **{table.name: "lineage_event_time" for table in FACET_TABLES}}


def whole_lake(spark: SparkSession, lake: Lake) -> dict[str, DataFrame]:
    """Each event table as it is now, with names of large facets in their place."""
    # Against the order of commits: what a row that was seen refers to is then seen as well.
    tables = {name: _table(spark, lake, name, schema) for name, schema in reversed(EVENT_TABLES.items())}
    facets = {table.name: tables[table.name] for table in FACET_TABLES}
    if lake.files(LARGE_FACETS.name):
        known = looks(facets.values(), _places(spark, lake, tables[LARGE_FACETS.name]))
        tables |= {LOOKS: known, **{name: with_names(table, known) for name, table in facets.items()}}
    else:
        tables |= {name: with_nothing_apart(table) for name, table in facets.items()}
    return {name: _with_turn(name, table, lake.facet_order) for name, table in tables.items()}


def write_events(ranges: DataFrame, worker: EventWorker) -> Told:
    """Take the events of ranges of the log apart into files, on the workers; nothing is committed yet."""
    return told(ranges.mapInArrow(worker, TOLD))


def write_tables(tables: Mapping[str, DataFrame], root: LakePlace, headway: Headway) -> list[DataFile]:
    """Write derived tables' rows into files; nothing is committed yet."""
    reports = {name: rows.mapInArrow(RowWorker(str(root), name), TOLD) for name, rows in tables.items()}
    return [file for report in side_by_side(told, reports, headway).values() for file in report.files]


def table_rows(spark: SparkSession, lake: Lake, name: str, schema: StructType) -> DataFrame:
    """The rows of a table as it is now: files of this machine by Spark, others by its workers."""
    files = lake.files(name)
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(*files) if lake.storage.is_local else fetched(spark, files, schema)


def _table(spark: SparkSession, lake: Lake, name: str, schema: StructType) -> DataFrame:
    asked = StructType([field for field in schema.fields if field.name not in _NEVER_ASKED])
    table = table_rows(spark, lake, name, asked)
    # In one partition rows are grouped where they are; many small shuffles cost more than they spread.
    return table.coalesce(1) if lake.size(name) < _ONE_PARTITION_BYTES else table


def _places(spark: SparkSession, lake: Lake, large_facets: DataFrame) -> DataFrame:
    """Where each large facet is."""
    if not lake.storage.is_local:
        return fetched_places(spark, lake.files(LARGE_FACETS.name))
    folder = lake.root / LARGE_FACETS.name
    place = F.concat(F.lit(f"{BEFORE_PLACE}{folder}/"), "_metadata.file_name", F.lit(BEFORE_ROW), "_metadata.row_index")
    return large_facets.select("uuid", place.alias("place"))


def _with_turn(name: str, table: DataFrame, order: FacetOrder) -> DataFrame:
    """With the column `turn`, by which facets and what they state are compared: the greatest counts."""
    if name not in _IN_TURN:
        return table
    columns = ("seq", _IN_TURN[name])
    return table.withColumn("turn", F.struct(*(columns if order is FacetOrder.RECEIVED else reversed(columns))))
