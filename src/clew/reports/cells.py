"""Reports on notebook cells: performance, debugging, audit and resources."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.reports.lake_tables import Tables

# A cell is slow if it needs this many times its median duration, and at least _MIN_SLOW_MS.
_SLOW_FACTOR = 2.0
_MIN_SLOW_MS = 10.0


def performance_report(tables: Tables) -> DataFrame:
    """Report the duration of each cell."""
    return (
        _cells(tables)
        .where(F.col("duration_ms").isNotNull())
        .groupBy("notebook", "cell")
        .agg(
            F.count("*").alias("executions"),
            F.round(F.median("duration_ms"), 1).alias("median_ms"),
            F.round(F.max("duration_ms"), 1).alias("max_ms"),
            F.round(F.sum("duration_ms"), 1).alias("total_ms"),
        )
        .orderBy(F.desc("total_ms"), "notebook", "cell")
    )


def debugging_report(tables: Tables) -> DataFrame:
    """Report executions that failed, never ended, or were much slower than the median of the cell."""
    by_cell = Window.partitionBy("notebook", "cell")
    is_slow = (F.col("duration_ms") > _SLOW_FACTOR * F.col("median_ms")) & (F.col("duration_ms") > _MIN_SLOW_MS)
    return (
        _cells(tables)
        .withColumn("median_ms", F.round(F.median("duration_ms").over(by_cell), 1))
        .withColumn("issue", F.when(F.col("state").isin("failed", "lost"), F.col("state")).when(is_slow, "slow"))
        .where(F.col("issue").isNotNull())
        .select(
            "started_at",
            "notebook",
            "cell",
            "issue",
            F.round("duration_ms", 1).alias("duration_ms"),
            "median_ms",
            F.concat_ws(": ", "error_type", "error_message").alias("error"),
            "session_id",
            "execution_id",
        )
        .orderBy(F.desc_nulls_last("started_at"), "notebook", "cell")
    )


def audit_report(tables: Tables) -> DataFrame:
    """Report each start, end and error of a cell, and each run event with its inputs and outputs."""
    cells = tables["runtime_events"].select(
        F.col("event_time").alias("at"),
        "session_id",
        F.concat_ws(" ", "notebook", _cell_name()).alias("actor"),
        F.regexp_replace("event_type", "^cell_execution_", "cell ").alias("action"),
        F.lit("").alias("read"),
        F.lit("").alias("wrote"),
        "seq",
    )
    runs = tables["lineage_events"].select(
        F.col("event_time").alias("at"),
        "session_id",
        F.concat_ws(" ", "job_namespace", "job_name").alias("actor"),
        F.concat_ws(" ", F.lower("kind"), F.lower("event_type")).alias("action"),
        _cell_dataset_names("inputs").alias("read"),
        _cell_dataset_names("outputs").alias("wrote"),
        "seq",
    )
    return cells.unionByName(runs).orderBy("at", "seq")


def resources_report(tables: Tables) -> DataFrame:
    """Report memory and time of each session."""
    memory = F.greatest("start_memory_mb", "end_memory_mb")
    return (
        _cells(tables)
        .groupBy("session_id", "notebook")
        .agg(
            F.min("started_at").alias("started_at"),
            F.count("*").alias("cells"),
            F.round(F.sum("duration_ms") / 1000, 3).alias("cell_seconds"),
            F.round(F.max(memory), 1).alias("peak_memory_mb"),
            F.round(F.max(memory) - F.min_by("start_memory_mb", "started_at"), 1).alias("memory_increase_mb"),
        )
        .orderBy(F.desc_nulls_last("peak_memory_mb"), "session_id")
    )


def _cells(tables: Tables) -> DataFrame:
    return tables["cell_executions"].withColumn("cell", _cell_name())


def _cell_name() -> Column:
    return F.coalesce("cell_name", "cell_id")


def _cell_dataset_names(column: str) -> Column:
    return F.array_join(F.transform(column, lambda dataset: dataset["name"]), ", ")
