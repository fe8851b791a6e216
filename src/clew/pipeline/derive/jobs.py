"""Jobs, with the run that was last heard of."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_KEY = ["job_namespace", "job_name"]


def jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job."""
    seen = tables["lineage_events"].where(F.col("job_name").isNotNull())
    latest = F.max(F.struct("event_time", "seq", "run_uuid"))
    known = seen.groupBy(*_KEY).agg(
        latest.alias("latest"), F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq")
    )
    return known.join(_types(tables["job_facets"]), _KEY, how="left").select(
        F.col("job_namespace").alias("namespace"),
        F.col("job_name").alias("name"),
        "job_type",
        "integration",
        F.col("latest.run_uuid").alias("latest_run_uuid"),
        F.col("latest.event_time").alias("last_event_at"),
        "first_seq",
        "last_seq",
    )


def _types(job_facets: DataFrame) -> DataFrame:
    types = job_facets.where(F.col("name") == "jobType").groupBy(*_KEY).agg(F.max_by("facet", "seq").alias("facet"))
    return types.select(
        *_KEY,
        F.get_json_object("facet", "$.jobType").alias("job_type"),
        F.get_json_object("facet", "$.integration").alias("integration"),
    )
