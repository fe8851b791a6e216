"""Job versions: a new one when inputs, outputs or the source code location change."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.lake.facet_columns import SOURCE_CODE_LOCATION
from clew.pipeline.derive.opening import parse_facets
from clew.pipeline.derive.run_io import reported_io
from clew.pipeline.derive.runs import inputs_and_outputs_by
from clew.pipeline.derive.version_names import job_version_hash

_JOB_VERSION_KEY = ["job_namespace", "job_name", "version"]
_CONTENT = ["inputs", "outputs", "source_code_location"]


def derive_job_versions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job and version, from runs and JobEvents."""
    of_run = F.when(F.col("run_uuid").isNotNull(), F.struct("at", "seq"))
    return (
        tables["observed_job_versions"]
        .groupBy(*_JOB_VERSION_KEY)
        .agg(
            *(F.min_by(column, "seq").alias(column) for column in _CONTENT),
            F.min("at").alias("created_at"),
            F.min_by("run_uuid", of_run).alias("first_run_uuid"),
            F.max_by("run_uuid", of_run).alias("latest_run_uuid"),
            F.count("run_uuid").alias("run_count"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
        )
    )


def derive_observed_job_versions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per ended run and per JobEvent, with its job version."""
    columns = [*_JOB_VERSION_KEY, *_CONTENT, "run_uuid", "at", "seq"]
    of_runs = (
        tables["runs"]
        .where(F.col("job_version").isNotNull())
        .withColumnsRenamed({"job_version": "version", "ended_at": "at", "state_seq": "seq"})
        .transform(_with_io, tables["run_io"], "run_uuid")
    )
    return of_runs.select(*columns).unionByName(_declared(tables).select(*columns))


def _declared(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per JobEvent, which replaces earlier declarations."""
    events = tables["lineage_events"].where((F.col("kind") == "JOB") & F.col("job_name").isNotNull())
    locations = parse_facets(
        tables["job_facets"].where("name = 'sourceCodeLocation' and run_uuid is null").select("event_id", "facet"),
        {"facet": SOURCE_CODE_LOCATION},
    )
    return (
        events.select("event_id", "job_namespace", "job_name", "run_uuid", F.col("event_time").alias("at"), "seq")
        .join(locations, "event_id", how="left")
        .transform(_with_io, reported_io(tables), "event_id")
        .withColumn("version", job_version_hash())
    )


def _with_io(rows: DataFrame, io: DataFrame, key: str) -> DataFrame:
    return rows.join(inputs_and_outputs_by(io, key), key, how="left").withColumns(
        {column: F.coalesce(column, F.array()) for column in ("inputs", "outputs")}
    )
