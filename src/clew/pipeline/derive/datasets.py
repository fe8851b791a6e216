"""Datasets, however they were named: as input, as output, or on their own."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.pipeline.derive.run_io import event_io


def datasets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset."""
    columns = ["dataset_namespace", "dataset_name", "event_time", "seq"]
    named = event_io(tables["lineage_events"]).select(*columns)
    subjects = tables["lineage_events"].where(F.col("dataset_name").isNotNull()).select(*columns)
    seen = named.unionByName(subjects).groupBy("dataset_namespace", "dataset_name")
    return seen.agg(
        F.max("event_time").alias("last_event_at"), F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq")
    ).withColumnsRenamed({"dataset_namespace": "namespace", "dataset_name": "name"})
