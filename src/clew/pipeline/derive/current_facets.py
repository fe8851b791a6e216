"""The facet that counts for each entity and name: the last one, whole, unless that one deletes it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
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
    is_inline = F.col("facet_bytes").isNull()
    row = F.struct(
        "seq",
        F.col("lineage_event_time").alias("event_time"),
        F.when(is_inline, F.col("facet")).alias("facet"),
        F.when(~is_inline, F.col("uuid")).alias("uuid"),
        "facet_bytes",
        "is_deletion",
    )
    last = F.max_by(row, F.struct("turn", "uuid")).alias("last")
    found = facets.groupBy(*entity, "name").agg(last).select(*entity, "name", "last.*")
    return found.where(~_is_deleted()).drop("is_deletion")


def _is_deleted() -> Column:
    # Two looks: the path alone does not tell true from "true", the text alone not whose `_deleted` it is.
    says_so = F.col("facet").rlike(r'"_deleted"\s*:\s*true')
    is_deleted = says_so & F.get_json_object("facet", "$._deleted").eqNullSafe("true")
    return F.coalesce("is_deletion", is_deleted, F.lit(False))  # noqa: FBT003
