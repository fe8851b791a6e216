"""Jobs, with the run that was last heard of and the version that holds now."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.lake.facet_columns import DESCRIPTION, JOB_TYPE
from clew.pipeline.derive.mentions import placeholder_jobs
from clew.pipeline.derive.opening import opened

_KEY = ["job_namespace", "job_name"]
_READINGS = {"jobType": JOB_TYPE, "documentation": DESCRIPTION}
_SEQS = {"jobType": "type_seq", "documentation": "description_seq"}


def jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job; those that were only named, with a run, as parent or root included."""
    seen = _seen(tables["lineage_events"]).join(_facets(tables["job_facets"]), _KEY, how="left")
    current = (
        tables["said_job_versions"].groupBy(*_KEY).agg(F.max_by("version", F.struct("at", "seq")).alias("version"))
    )
    known = seen.join(current, _KEY, how="left").withColumnsRenamed(
        {"job_namespace": "namespace", "job_name": "name", "version": "current_version"}
    )
    return known.unionByName(placeholder_jobs(tables), allowMissingColumns=True)


def _seen(lineage_events: DataFrame) -> DataFrame:
    run = F.when(F.col("run_uuid").isNotNull(), F.struct("event_time", "seq", "run_uuid"))
    return (
        lineage_events.where(F.col("job_name").isNotNull())
        .groupBy(*_KEY)
        .agg(
            F.max(run).alias("latest"),
            F.min("event_time").alias("first_event_at"),
            F.max("event_time").alias("last_event_at"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
        )
        .select(
            *_KEY,
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


def _facets(job_facets: DataFrame) -> DataFrame:
    """What the last facet of each name says of a job, whole."""
    place = {name: F.when(F.col("name") == name, F.col("turn")) for name in _READINGS}
    last = (
        job_facets.where(F.col("name").isin(*_READINGS))
        .groupBy(*_KEY)
        .agg(
            *(F.max_by("facet", turn).alias(name) for name, turn in place.items()),
            *(F.max_by("seq", turn).alias(_SEQS[name]) for name, turn in place.items()),
        )
    )
    return opened(last, _READINGS)
