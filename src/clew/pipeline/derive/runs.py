"""Runs: a state that does not depend on the order in which events arrived."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.events.states import RANKS, STATES, TERMINAL_RANK, UNSAID


def runs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run, with its parent."""
    observed = (
        tables["lineage_events"].where(F.col("run_uuid").isNotNull()).withColumn("rank", _rank(F.col("event_type")))
    )
    states = observed.groupBy("run_uuid").agg(
        F.min_by(F.struct("job_namespace", "job_name"), F.when(F.col("job_name").isNotNull(), F.col("seq"))).alias(
            "job"
        ),
        # Terminal is sticky: rank first, and only among equals the later event.
        F.max(F.struct("rank", "event_time", "seq", "event_type")).alias("last"),
        F.min(F.when(F.upper("event_type") == "START", F.col("event_time"))).alias("started_at"),
        F.min("event_time").alias("first_event_at"),
        F.max("event_time").alias("last_event_at"),
        F.max("session_id").alias("session_id"),
        F.max("execution_id").alias("execution_id"),
        F.max("seq").alias("last_seq"),
    )
    return states.join(_parents(tables["run_facets"]), "run_uuid", how="left").select(
        "run_uuid",
        "job.job_namespace",
        "job.job_name",
        F.coalesce(_lookup(STATES, F.upper("last.event_type")), F.lit(UNSAID)).alias("state"),
        F.col("last.rank").alias("state_rank"),
        F.col("last.event_time").alias("state_at"),
        F.col("last.seq").alias("state_seq"),
        "started_at",
        F.when(F.col("last.rank") == TERMINAL_RANK, F.col("last.event_time")).alias("ended_at"),
        "first_event_at",
        "last_event_at",
        "parent_run_uuid",
        "parent_job_namespace",
        "parent_job_name",
        "root_run_uuid",
        "session_id",
        "execution_id",
        "last_seq",
    )


def _parents(run_facets: DataFrame) -> DataFrame:
    parents = (
        run_facets.where(F.col("name") == "parent").groupBy("run_uuid").agg(F.max_by("facet", "seq").alias("parent"))
    )
    return parents.select(
        "run_uuid",
        F.get_json_object("parent", "$.run.runId").alias("parent_run_uuid"),
        F.get_json_object("parent", "$.job.namespace").alias("parent_job_namespace"),
        F.get_json_object("parent", "$.job.name").alias("parent_job_name"),
        F.get_json_object("parent", "$.root.run.runId").alias("root_run_uuid"),
    )


def _rank(event_type: Column) -> Column:
    return F.coalesce(_lookup(RANKS, F.upper(event_type)), F.lit(0))


def _lookup(values: Mapping[str, object], key: Column) -> Column:
    return F.create_map(*(F.lit(item) for item in chain.from_iterable(values.items())))[key]
