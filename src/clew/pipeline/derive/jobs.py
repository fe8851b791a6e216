"""Jobs with their latest run and current version."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.lake.facet_columns import DESCRIPTION, JOB_TYPE
from clew.pipeline.derive.mentions import placeholder_jobs
from clew.pipeline.derive.opening import parse_facets

_JOB_KEY = ["job_namespace", "job_name"]
_JOB_PARSERS = {"jobType": JOB_TYPE, "documentation": DESCRIPTION}
_JOB_SEQS = {"jobType": "type_seq", "documentation": "description_seq"}


def derive_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job, including jobs that are only referenced as parent or root."""
    observed = _aggregate_events(tables["lineage_events"]).join(
        _parsed_job_facets(tables["job_facets"]), _JOB_KEY, how="left"
    )
    current = (
        tables["observed_job_versions"]
        .groupBy(*_JOB_KEY)
        .agg(F.max_by("version", F.struct("at", "seq")).alias("version"))
    )
    jobs = observed.join(current, _JOB_KEY, how="left").withColumnsRenamed(
        {"job_namespace": "namespace", "job_name": "name", "version": "current_version"}
    )
    return jobs.unionByName(placeholder_jobs(tables), allowMissingColumns=True)


def _aggregate_events(lineage_events: DataFrame) -> DataFrame:
    run = F.when(F.col("run_uuid").isNotNull(), F.struct("event_time", "seq", "run_uuid"))
    return (
        lineage_events.where(F.col("job_name").isNotNull())
        .groupBy(*_JOB_KEY)
        .agg(
            F.max(run).alias("latest"),
            F.min("event_time").alias("first_event_at"),
            F.max("event_time").alias("last_event_at"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
        )
        .select(
            *_JOB_KEY,
            F.lit(False).alias("is_placeholder"),  # noqa: FBT003
            F.col("latest.run_uuid").alias("latest_run_uuid"),
            F.col("latest.event_time").alias("latest_run_at"),
            F.col("latest.seq").alias("latest_run_seq"),
            "first_event_at",
            "last_event_at",
            "first_seq",
            "last_seq",
        )
    )


def _parsed_job_facets(job_facets: DataFrame) -> DataFrame:
    """Parse the last facet of each name of a job."""
    order = {name: F.when(F.col("name") == name, F.col("precedence")) for name in _JOB_PARSERS}
    last = (
        job_facets.where(F.col("name").isin(*_JOB_PARSERS))
        .groupBy(*_JOB_KEY)
        .agg(
            *(F.max_by("facet", key).alias(name) for name, key in order.items()),
            *(F.max_by("seq", key).alias(_JOB_SEQS[name]) for name, key in order.items()),
        )
    )
    return parse_facets(last, _JOB_PARSERS)
