"""Runs and jobs that are only known because a run names them as its parent or root."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.events.states import UNSAID
from clew.lake.facet_columns import MENTIONS
from clew.pipeline.derive.opening import listed


def mentioned_runs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run that was named; its job is the one named first."""
    has_job = F.col("job_name").isNotNull()
    named = tables["mentions"].groupBy("run_uuid")
    job = F.min_by(F.struct("job_namespace", "job_name"), F.when(has_job, F.struct("first_seq", "place")))
    return named.agg(
        job.alias("job"),
        F.min(F.when(has_job, F.col("first_seq"))).alias("job_seq"),
        F.max("last_seq").alias("last_seq"),
    ).select("run_uuid", "job.job_namespace", "job.job_name", "job_seq", "last_seq")


def mentioned_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job of a run that was named."""
    named = tables["mentions"].where(F.col("job_name").isNotNull())
    return named.groupBy(F.col("job_namespace").alias("namespace"), F.col("job_name").alias("name")).agg(
        F.min("first_seq").alias("first_seq"), F.max("last_seq").alias("last_seq")
    )


def placeholder_runs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The runs that were named and have no event of their own."""
    unheard = tables["mentioned_runs"].join(tables["lineage_events"].select("run_uuid"), "run_uuid", how="left_anti")
    return unheard.select(
        "*",
        F.lit(True).alias("is_placeholder"),  # noqa: FBT003
        F.lit(UNSAID).alias("state"),
        F.lit(0).alias("state_rank"),
    )


def placeholder_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The jobs that were named so, and by no event as its own."""
    key = [F.col(f"job_{part}").alias(part) for part in ("namespace", "name")]
    unheard = tables["mentioned_jobs"].join(
        tables["lineage_events"].select(*key), ["namespace", "name"], how="left_anti"
    )
    return unheard.select("*", F.lit(True).alias("is_placeholder"))  # noqa: FBT003


def mentions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run that a parent facet names, with the first and the last event that bears the facet."""
    # Many runs have the same parent: each facet is opened once.
    bodies = (
        tables["run_facets"]
        .where((F.col("name") == "parent") & F.col("run_uuid").isNotNull())
        .groupBy("facet")
        .agg(F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq"))
    )
    return listed(bodies, "facet", MENTIONS)
