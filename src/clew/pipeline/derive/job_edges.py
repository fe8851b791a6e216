"""Lineage between jobs and datasets, and between jobs."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.events.explicit_lineage import DATASET, JOB
from clew.pipeline.derive.nodes import resolved
from clew.pipeline.derive.run_io import declarations, said_io
from clew.pipeline.derive.statements import lineage_declarations, run_or_job

_EDGE = ["job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name"]
_JOB = ["job_namespace", "job_name"]
_LINK = [*_JOB, "upstream_namespace", "upstream_name"]


def job_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job, direction and dataset, by the name of its node, with the run that last said so."""
    columns = [*_EDGE, "run_uuid", "event_time", "seq", "is_implied"]
    listed = said_io(tables).where(F.col("job_name").isNotNull()).select(*columns)
    stated = listed.unionByName(_of_entries(tables["entries"]).select(*columns))
    edges = _with_lasting(stated, tables["lineage_events"]).groupBy(*_EDGE)
    first, is_implied = F.min("event_time").alias("first_event_at"), F.min("is_implied").alias("is_implied")
    lasting = edges.agg(first, *_last_said(), is_implied, F.max("lasts").alias("lasts")).where("lasts").drop("lasts")
    return (
        resolved(lasting, tables["nodes"], "dataset")
        .groupBy(*_EDGE)
        .agg(
            F.max_by("last_run_uuid", "last_seq").alias("last_run_uuid"),
            *(F.min(column).alias(column) for column in ("first_event_at", "first_seq", "is_implied")),
            *(F.max(column).alias(column) for column in ("last_event_at", "last_seq")),
        )
        .select(*lasting.columns)
    )


def job_links(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job and job that feeds it, with the run that last said so."""
    upstream = F.explode("upstream").alias("source")
    said = _links(tables).select(*_JOB, "run_uuid", "event_time", "seq", upstream)
    sources = {"upstream_namespace": F.col("source.namespace"), "upstream_name": F.col("source.name")}
    return said.withColumns(sources).groupBy(*_LINK).agg(*_last_said())


def _with_lasting(said: DataFrame, lineage_events: DataFrame) -> DataFrame:
    """With the column `lasts`: false where a job declares an edge and, by a later declaration, something else."""
    in_turn = Window.partitionBy(*_JOB).orderBy(F.desc("turn"))
    declared = declarations(lineage_events).select(*_JOB, "seq", (F.row_number().over(in_turn) == 1).alias("is_last"))
    is_of_run = F.col("run_uuid").isNotNull()
    without_run = said.where(~is_of_run).join(declared, [*_JOB, "seq"], how="left")
    # What is said of a job without a run, and is no declaration of its own, nothing takes back.
    lasts = without_run.withColumn("lasts", F.coalesce("is_last", F.lit(True))).drop("is_last")  # noqa: FBT003
    return said.where(is_of_run).withColumn("lasts", F.lit(True)).unionByName(lasts)  # noqa: FBT003


def _last_said() -> list[Column]:
    return [
        F.max_by("run_uuid", "seq").alias("last_run_uuid"),
        F.max("event_time").alias("last_event_at"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
    ]


def _links(tables: Mapping[str, DataFrame]) -> DataFrame:
    """What each run, or job without one, last said to feed a job."""
    source = F.when(F.col("type") == JOB, F.struct("namespace", "name"))
    fed = tables["entries"].where(F.col("target_type") == JOB).withColumn("author", run_or_job())
    entries = fed.groupBy("author", "target_namespace", "target_name", "seq", "place").agg(
        F.sort_array(F.collect_set(source)).alias("upstream"),
        F.max("run_uuid").alias("run_uuid"),
        F.max("event_time").alias("event_time"),
        F.max("turn").alias("turn"),
    )
    last = F.max_by(F.struct("seq", "turn", "event_time", "run_uuid", "upstream"), F.struct("turn", "place"))
    return (
        entries.groupBy(
            "author", F.col("target_namespace").alias("job_namespace"), F.col("target_name").alias("job_name")
        )
        .agg(last.alias("last"))
        .select("author", *_JOB, "last.*")
        .join(lineage_declarations(tables), "author", how="left")
        .where(F.col("declared_turn").isNull() | (F.col("turn") >= F.col("declared_turn")))
        .drop("turn", "declared_turn")
    )


def _of_entries(entries: DataFrame) -> DataFrame:
    """What entries of explicit lineage say of jobs: that one reads a dataset, or makes one."""
    told = [*map(F.col, ("run_uuid", "event_time", "seq")), F.lit(True).alias("is_implied")]  # noqa: FBT003
    read = entries.where((F.col("target_type") == JOB) & (F.col("type") == DATASET)).select(
        F.col("target_namespace").alias("job_namespace"),
        F.col("target_name").alias("job_name"),
        F.lit("INPUT").alias("direction"),
        F.col("namespace").alias("dataset_namespace"),
        F.col("name").alias("dataset_name"),
        *told,
    )
    made = entries.where((F.col("target_type") == DATASET) & (F.col("type") == JOB)).select(
        F.col("namespace").alias("job_namespace"),
        F.col("name").alias("job_name"),
        F.lit("OUTPUT").alias("direction"),
        F.col("target_namespace").alias("dataset_namespace"),
        F.col("target_name").alias("dataset_name"),
        *told,
    )
    return read.unionByName(made)
