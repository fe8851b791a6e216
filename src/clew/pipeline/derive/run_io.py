"""Inputs and outputs of runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.pipeline.derive.contents import io_schema_and_row_count

_KEY = ["run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"]
_CONTENT = ["schema_id", "schema_seq", "row_count", "row_count_seq"]


def derive_run_io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run, direction, dataset and version: the union over all events of the run."""
    of_runs = reported_io(tables).where(F.col("run_uuid").isNotNull())
    io = of_runs.groupBy(*_KEY).agg(
        *(_last(column).alias(column) for column in ("job_namespace", "job_name", "session_id")),
        _last("seq").alias("last_seq"),
        F.min("is_implied").alias("is_implied"),
    )
    contents = io_schema_and_row_count(tables["dataset_facets"])
    same = reduce(and_, (io[column].eqNullSafe(contents[column]) for column in _KEY))
    return io.join(contents, same, how="left").select(io["*"], *(contents[column] for column in _CONTENT))


def reported_io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per event and its inputs and outputs, listed or inferred from lineage."""
    listed = listed_io(tables["lineage_events"]).withColumn("is_implied", F.lit(False))  # noqa: FBT003
    return listed.unionByName(tables["inferred_inputs"])


def _last(column: str) -> Column:
    """Maximum of the listed rows; of the inferred rows if none is listed."""
    listed = F.max(F.when(~F.col("is_implied"), F.col(column)))
    return F.when(F.min("is_implied"), F.max(column)).otherwise(listed)


def listed_io(lineage_events: DataFrame) -> DataFrame:
    """One row per event and its listed inputs and outputs."""
    return _direction(lineage_events, "INPUT", "inputs").unionByName(_direction(lineage_events, "OUTPUT", "outputs"))


def job_declarations(lineage_events: DataFrame) -> DataFrame:
    """JobEvents that list datasets: each declares all inputs and outputs of its job."""
    has_datasets = (F.size("inputs") > 0) | (F.size("outputs") > 0)
    return lineage_events.where((F.col("kind") == "JOB") & has_datasets)


def _direction(lineage_events: DataFrame, direction: str, column: str) -> DataFrame:
    context = ["event_id", "seq", "event_time", "run_uuid", "job_namespace", "job_name", "session_id"]
    return lineage_events.select(*context, F.explode(column).alias("dataset")).select(
        *context,
        F.lit(direction).alias("direction"),
        F.col("dataset.namespace").alias("dataset_namespace"),
        F.col("dataset.name").alias("dataset_name"),
        F.col("dataset.version").alias("dataset_version"),
    )
