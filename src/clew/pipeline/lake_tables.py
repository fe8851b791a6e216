"""Tables of the lake as DataFrames, and DataFrames into files of the lake."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from clew.lake.delta import Lake
from clew.lake.files import DataFile
from clew.pipeline.schemas import EVENT_TABLES
from clew.pipeline.telling import TOLD, Told, told
from clew.pipeline.worker import EventWorker, RowWorker

_SMALL_BYTES = 16 << 20


def whole_lake(spark: SparkSession, lake: Lake) -> dict[str, DataFrame]:
    """Each event table as it is now."""
    return {name: _table(spark, schema, lake.files(name)) for name, schema in EVENT_TABLES.items()}


def write_events(ranges: DataFrame, worker: EventWorker) -> Told:
    """Take the events of ranges of the log apart into files, on the workers; nothing is committed yet."""
    return told(ranges.mapInArrow(worker, TOLD))


def write_tables(tables: Mapping[str, DataFrame], root: Path) -> list[DataFile]:
    """Write derived tables' rows into files, in one job; nothing is committed yet."""
    reports = [rows.mapInArrow(RowWorker(str(root), name), TOLD) for name, rows in tables.items()]
    return told(reduce(DataFrame.union, reports)).files


def _table(spark: SparkSession, schema: StructType, files: list[str]) -> DataFrame:
    if not files:
        return spark.createDataFrame([], schema).coalesce(1)
    table = spark.read.schema(schema).parquet(*files)
    # In one partition rows are grouped where they are; many small shuffles cost more than they spread.
    return table.coalesce(1) if sum(Path(file).stat().st_size for file in files) < _SMALL_BYTES else table
