"""Tables of the lake as DataFrames, and DataFrames into files of the lake."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from clew.events.facet_order import FacetOrder
from clew.lake.delta import Lake
from clew.lake.files import DataFile
from clew.lake.tables import FACET_TABLES, LARGE_FACETS, LINEAGE_EVENTS
from clew.pipeline.large_facets import LOOKS, looks, with_names, with_nothing_apart
from clew.pipeline.schemas import EVENT_TABLES
from clew.pipeline.side_by_side import side_by_side
from clew.pipeline.telling import TOLD, Told, told
from clew.pipeline.worker import EventWorker, RowWorker

_ONE_PARTITION_BYTES = 16 << 20
_IN_TURN = {LINEAGE_EVENTS.name: "event_time", **{table.name: "lineage_event_time" for table in FACET_TABLES}}


def whole_lake(spark: SparkSession, lake: Lake) -> dict[str, DataFrame]:
    """Each event table as it is now, with names of large facets in their place."""
    # Against the order of commits: what a row that was seen refers to is then seen as well.
    tables = {name: _table(spark, schema, lake.files(name)) for name, schema in reversed(EVENT_TABLES.items())}
    facets = {table.name: tables[table.name] for table in FACET_TABLES}
    if lake.files(LARGE_FACETS.name):
        known = looks(facets.values(), tables[LARGE_FACETS.name], lake.root / LARGE_FACETS.name)
        tables |= {LOOKS: known, **{name: with_names(table, known) for name, table in facets.items()}}
    else:
        tables |= {name: with_nothing_apart(table) for name, table in facets.items()}
    return {name: _with_turn(name, table, lake.facet_order) for name, table in tables.items()}


def write_events(ranges: DataFrame, worker: EventWorker) -> Told:
    """Take the events of ranges of the log apart into files, on the workers; nothing is committed yet."""
    return told(ranges.mapInArrow(worker, TOLD))


def write_tables(tables: Mapping[str, DataFrame], root: Path) -> list[DataFile]:
    """Write derived tables' rows into files; nothing is committed yet."""
    reports = {name: rows.mapInArrow(RowWorker(str(root), name), TOLD) for name, rows in tables.items()}
    return [file for report in side_by_side(told, reports).values() for file in report.files]


def _table(spark: SparkSession, schema: StructType, files: list[str]) -> DataFrame:
    if not files:
        return spark.createDataFrame([], schema).coalesce(1)
    table = spark.read.schema(schema).parquet(*files)
    # In one partition rows are grouped where they are; many small shuffles cost more than they spread.
    return table.coalesce(1) if sum(Path(file).stat().st_size for file in files) < _ONE_PARTITION_BYTES else table


def _with_turn(name: str, table: DataFrame, order: FacetOrder) -> DataFrame:
    """With the column `turn`, by which facets and what they state are compared: the greatest counts."""
    if name not in _IN_TURN:
        return table
    columns = ("seq", _IN_TURN[name])
    return table.withColumn("turn", F.struct(*(columns if order is FacetOrder.RECEIVED else reversed(columns))))
