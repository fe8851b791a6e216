"""The facet that counts for each entity and name: the last received, whole."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def current_run_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run and facet name."""
    return _last(tables["run_facets"].where(F.col("run_uuid").isNotNull()), "run_uuid")


def current_job_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job and facet name."""
    return _last(tables["job_facets"], "job_namespace", "job_name")


def current_dataset_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset, version and facet name; input and output facets belong to one run."""
    of_one_run = F.when(F.col("type") != "DATASET", F.col("run_uuid")).alias("of_run_uuid")
    facets = tables["dataset_facets"].select("*", of_one_run)
    return _last(facets, "type", "dataset_namespace", "dataset_name", "dataset_version", "of_run_uuid")


def _last(facets: DataFrame, *entity: str) -> DataFrame:
    # Spec: a facet of the same name replaces the earlier one whole: last wins, no deep merge.
    last = F.max(F.struct("seq", F.col("lineage_event_time").alias("event_time"), "facet")).alias("last")
    return facets.groupBy(*entity, "name").agg(last).select(*entity, "name", "last.*")
