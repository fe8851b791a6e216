"""Runs and jobs that are only referenced in parent facets."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.events.states import DEFAULT_STATE
from clew.lake.facet_columns import PARENT_REFERENCES
from clew.pipeline.derive.opening import explode_facet


def derive_referenced_runs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per referenced run with its first referenced job."""
    has_job = F.col("job_name").isNotNull()
    references = tables["parent_references"].groupBy("run_uuid")
    job = F.min_by(F.struct("job_namespace", "job_name"), F.when(has_job, F.struct("first_seq", "position")))
    return references.agg(
        job.alias("job"),
        F.min(F.when(has_job, F.col("first_seq"))).alias("job_seq"),
        F.max("last_seq").alias("last_seq"),
    ).select("run_uuid", "job.job_namespace", "job.job_name", "job_seq", "last_seq")


def derive_referenced_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job of a referenced run."""
    references = tables["parent_references"].where(F.col("job_name").isNotNull())
    return references.groupBy(F.col("job_namespace").alias("namespace"), F.col("job_name").alias("name")).agg(
        F.min("first_seq").alias("first_seq"), F.max("last_seq").alias("last_seq")
    )


def placeholder_runs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Build rows of runs that are referenced but have no events."""
    without_events = tables["referenced_runs"].join(
        tables["lineage_events"].select("run_uuid"), "run_uuid", how="left_anti"
    )
    return without_events.select(
        "*",
        F.lit(True).alias("is_placeholder"),  # noqa: FBT003
        F.lit(DEFAULT_STATE).alias("state"),
        F.lit(0).alias("state_rank"),
    )


def placeholder_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Build rows of jobs that are referenced but have no events."""
    key = [F.col(f"job_{part}").alias(part) for part in ("namespace", "name")]
    without_events = tables["referenced_jobs"].join(
        tables["lineage_events"].select(*key), ["namespace", "name"], how="left_anti"
    )
    return without_events.select("*", F.lit(True).alias("is_placeholder"))  # noqa: FBT003


def derive_parent_references(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run in a parent facet, with the first and last event that contains the facet."""
    # Many runs have the same parent: each facet is parsed once.
    bodies = (
        tables["run_facets"]
        .where((F.col("name") == "parent") & F.col("run_uuid").isNotNull())
        .groupBy("facet")
        .agg(F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq"))
    )
    return explode_facet(bodies, "facet", PARENT_REFERENCES)
