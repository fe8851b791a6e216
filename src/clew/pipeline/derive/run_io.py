"""What each run read and wrote."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def run_io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run, direction, dataset and version: the union over all events of the run."""
    of_runs = event_io(tables["lineage_events"]).where(F.col("run_uuid").isNotNull())
    return of_runs.groupBy("run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version").agg(
        F.max("job_namespace").alias("job_namespace"),
        F.max("job_name").alias("job_name"),
        F.max("session_id").alias("session_id"),
        F.max("seq").alias("last_seq"),
    )


def event_io(lineage_events: DataFrame) -> DataFrame:
    """One row per event and dataset that it names as input or output."""
    return _direction(lineage_events, "INPUT", "inputs").unionByName(_direction(lineage_events, "OUTPUT", "outputs"))


def _direction(lineage_events: DataFrame, direction: str, column: str) -> DataFrame:
    context = ["event_id", "seq", "event_time", "run_uuid", "job_namespace", "job_name", "session_id"]
    return lineage_events.select(*context, F.explode(column).alias("dataset")).select(
        *context,
        F.lit(direction).alias("direction"),
        F.col("dataset.namespace").alias("dataset_namespace"),
        F.col("dataset.name").alias("dataset_name"),
        F.col("dataset.version").alias("dataset_version"),
    )
