"""Lineage between jobs and datasets."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.pipeline.derive.run_io import event_io


def job_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job, direction and dataset, with the run that last said so."""
    stated = event_io(tables["lineage_events"]).where(F.col("job_name").isNotNull())
    return stated.groupBy("job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name").agg(
        F.max_by("run_uuid", "seq").alias("last_run_uuid"),
        F.max("event_time").alias("last_event_at"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
    )
