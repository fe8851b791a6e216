"""Edges between jobs and datasets, and dependencies between jobs."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.events.explicit_lineage import DATASET, JOB
from clew.pipeline.derive.nodes import with_canonical_names
from clew.pipeline.derive.run_io import job_declarations, reported_io
from clew.pipeline.derive.statements import asserter_key, static_lineage

_JOB_EDGE = ["job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name"]
_JOB = ["job_namespace", "job_name"]
_DEPENDENCY = [*_JOB, "upstream_namespace", "upstream_name"]


def derive_job_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job, direction and canonical dataset, with the last run that reported it."""
    columns = [*_JOB_EDGE, "run_uuid", "event_time", "seq", "is_implied"]
    listed = reported_io(tables).where(F.col("job_name").isNotNull()).select(*columns)
    all_edges = listed.unionByName(_edges_from_entries(tables["explicit_lineage_entries"]).select(*columns))
    edges = _mark_superseded(all_edges, tables["lineage_events"]).groupBy(*_JOB_EDGE)
    first, is_implied = F.min("event_time").alias("first_event_at"), F.min("is_implied").alias("is_implied")
    is_current = F.max("is_current").alias("is_current")
    current = edges.agg(first, *_latest_event_columns(), is_implied, is_current).where("is_current").drop("is_current")
    return (
        with_canonical_names(current, tables["dataset_aliases"], "dataset")
        .groupBy(*_JOB_EDGE)
        .agg(
            F.max_by("last_run_uuid", "last_seq").alias("last_run_uuid"),
            *(F.min(column).alias(column) for column in ("first_event_at", "first_seq", "is_implied")),
            *(F.max(column).alias(column) for column in ("last_event_at", "last_seq")),
        )
        .select(*current.columns)
    )


def derive_job_dependencies(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job and upstream job, with the last run that reported it."""
    upstream = F.explode("upstream").alias("source")
    reported = _upstream_jobs(tables).select(*_JOB, "run_uuid", "event_time", "seq", upstream)
    sources = {"upstream_namespace": F.col("source.namespace"), "upstream_name": F.col("source.name")}
    return reported.withColumns(sources).groupBy(*_DEPENDENCY).agg(*_latest_event_columns())


def _mark_superseded(reported: DataFrame, lineage_events: DataFrame) -> DataFrame:
    """Add the column `is_current`: false if the edge was declared by a JobEvent that a later one superseded."""
    newest_first = Window.partitionBy(*_JOB).orderBy(F.desc("precedence"))
    declared = job_declarations(lineage_events).select(
        *_JOB, "seq", (F.row_number().over(newest_first) == 1).alias("is_last")
    )
    is_of_run = F.col("run_uuid").isNotNull()
    without_run = reported.where(~is_of_run).join(declared, [*_JOB, "seq"], how="left")
    # Edges without a run that are not declared by the job itself are never superseded.
    marked = without_run.withColumn("is_current", F.coalesce("is_last", F.lit(True))).drop("is_last")  # noqa: FBT003
    return reported.where(is_of_run).withColumn("is_current", F.lit(True)).unionByName(marked)  # noqa: FBT003


def _latest_event_columns() -> list[Column]:
    return [
        F.max_by("run_uuid", "seq").alias("last_run_uuid"),
        F.max("event_time").alias("last_event_at"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
    ]


def _upstream_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Upstream jobs of the last entry of each asserter for each job."""
    source = F.when(F.col("type") == JOB, F.struct("namespace", "name"))
    job_entries = (
        tables["explicit_lineage_entries"].where(F.col("target_type") == JOB).withColumn("asserted_by", asserter_key())
    )
    entries = job_entries.groupBy("asserted_by", "target_namespace", "target_name", "seq", "position").agg(
        F.sort_array(F.collect_set(source)).alias("upstream"),
        F.max("run_uuid").alias("run_uuid"),
        F.max("event_time").alias("event_time"),
        F.max("precedence").alias("precedence"),
    )
    last = F.max_by(
        F.struct("seq", "precedence", "event_time", "run_uuid", "upstream"), F.struct("precedence", "position")
    )
    return (
        entries.groupBy(
            "asserted_by", F.col("target_namespace").alias("job_namespace"), F.col("target_name").alias("job_name")
        )
        .agg(last.alias("last"))
        .select("asserted_by", *_JOB, "last.*")
        .join(static_lineage(tables), "asserted_by", how="left")
        .where(F.col("declared_precedence").isNull() | (F.col("precedence") >= F.col("declared_precedence")))
        .drop("precedence", "declared_precedence")
    )


def _edges_from_entries(entries: DataFrame) -> DataFrame:
    """Edges between jobs and datasets in explicit lineage entries."""
    event_columns = [*map(F.col, ("run_uuid", "event_time", "seq")), F.lit(True).alias("is_implied")]  # noqa: FBT003
    read = entries.where((F.col("target_type") == JOB) & (F.col("type") == DATASET)).select(
        F.col("target_namespace").alias("job_namespace"),
        F.col("target_name").alias("job_name"),
        F.lit("INPUT").alias("direction"),
        F.col("namespace").alias("dataset_namespace"),
        F.col("name").alias("dataset_name"),
        *event_columns,
    )
    written = entries.where((F.col("target_type") == DATASET) & (F.col("type") == JOB)).select(
        F.col("namespace").alias("job_namespace"),
        F.col("name").alias("job_name"),
        F.lit("OUTPUT").alias("direction"),
        F.col("target_namespace").alias("dataset_namespace"),
        F.col("target_name").alias("dataset_name"),
        *event_columns,
    )
    return read.unionByName(written)
