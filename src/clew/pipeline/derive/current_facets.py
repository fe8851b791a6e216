"""The current facet of each entity and name: the last one, unless it is a deletion."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def derive_current_run_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run and facet name."""
    return _last_facets(tables["run_facets"].where(F.col("run_uuid").isNotNull()), "run_uuid")


def derive_current_job_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job and facet name."""
    return _last_facets(tables["job_facets"], "job_namespace", "job_name")


def derive_current_dataset_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset, version and facet name; input and output facets belong to one run."""
    # Null for DATASET facets, which belong to the dataset and not to a run.
    run_uuid = F.when(F.col("type") != "DATASET", F.col("run_uuid"))
    facets = tables["dataset_facets"].withColumn("run_uuid", run_uuid)
    return _last_facets(facets, "type", "dataset_namespace", "dataset_name", "dataset_version", "run_uuid")


def _last_facets(facets: DataFrame, *entity: str) -> DataFrame:
    # Spec: a facet replaces an earlier one of the same name as a whole, without a deep merge.
    is_inline = F.col("large_facet_bytes").isNull()
    row = F.struct(
        "seq",
        F.col("lineage_event_time").alias("event_time"),
        F.when(is_inline, F.col("facet")).alias("facet"),
        F.when(~is_inline, F.col("uuid")).alias("uuid"),
        "large_facet_bytes",
        "is_deletion",
    )
    last = F.max_by(row, F.struct("precedence", "uuid")).alias("last")
    current = facets.groupBy(*entity, "name").agg(last).select(*entity, "name", "last.*")
    return current.where(~_is_deleted()).drop("is_deletion")


def _is_deleted() -> Column:
    # Both checks: the JSON path matches "true" as well, the pattern matches nested keys as well.
    matches_text = F.col("facet").rlike(r'"_deleted"\s*:\s*true')
    is_deleted = matches_text & F.get_json_object("facet", "$._deleted").eqNullSafe("true")
    return F.coalesce("is_deletion", is_deleted, F.lit(False))  # noqa: FBT003
