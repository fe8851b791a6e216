"""What each run read and wrote."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.pipeline.derive.contents import contents

_KEY = ["run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"]
_CONTENT = ["schema_id", "schema_seq", "row_count", "row_count_seq"]


def run_io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run, direction, dataset and version: the union over all events of the run."""
    of_runs = said_io(tables).where(F.col("run_uuid").isNotNull())
    known = of_runs.groupBy(*_KEY).agg(
        *(_last(column).alias(column) for column in ("job_namespace", "job_name", "session_id")),
        _last("seq").alias("last_seq"),
        F.min("is_implied").alias("is_implied"),
    )
    held = contents(tables["dataset_facets"])
    same = reduce(and_, (known[column].eqNullSafe(held[column]) for column in _KEY))
    return known.join(held, same, how="left").select(known["*"], *(held[column] for column in _CONTENT))


def said_io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per event and dataset that it names as input or output, or that its lineage comes from."""
    stated = event_io(tables["lineage_events"]).withColumn("is_implied", F.lit(False))  # noqa: FBT003
    return stated.unionByName(tables["implied_io"])


def _last(column: str) -> Column:
    """The greatest value, of those that are stated if there are any."""
    stated = F.max(F.when(~F.col("is_implied"), F.col(column)))
    return F.when(F.min("is_implied"), F.max(column)).otherwise(stated)


def event_io(lineage_events: DataFrame) -> DataFrame:
    """One row per event and dataset that it names as input or output."""
    return _direction(lineage_events, "INPUT", "inputs").unionByName(_direction(lineage_events, "OUTPUT", "outputs"))


def declarations(lineage_events: DataFrame) -> DataFrame:
    """JobEvents that list datasets: each declares all that its job reads and writes."""
    lists_any = (F.size("inputs") > 0) | (F.size("outputs") > 0)
    return lineage_events.where((F.col("kind") == "JOB") & lists_any)


def _direction(lineage_events: DataFrame, direction: str, column: str) -> DataFrame:
    context = ["event_id", "seq", "event_time", "run_uuid", "job_namespace", "job_name", "session_id"]
    return lineage_events.select(*context, F.explode(column).alias("dataset")).select(
        *context,
        F.lit(direction).alias("direction"),
        F.col("dataset.namespace").alias("dataset_namespace"),
        F.col("dataset.name").alias("dataset_name"),
        F.col("dataset.version").alias("dataset_version"),
    )
