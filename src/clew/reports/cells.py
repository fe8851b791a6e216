"""What cells of notebooks cost, which of them are in trouble, and who did what when."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.reports.lake_tables import Tables

# A cell is slow if it took so many times as long as it usually does, and not just by a trifle.
_SLOW_FACTOR = 2.0
_LEAST_MS = 10.0


def performance(tables: Tables) -> DataFrame:
    """The time that each cell takes, and what it costs in all."""
    return (
        _cells(tables)
        .where(F.col("duration_ms").isNotNull())
        .groupBy("notebook", "cell")
        .agg(
            F.count("*").alias("executions"),
            F.round(F.median("duration_ms"), 1).alias("median_ms"),
            F.round(F.max("duration_ms"), 1).alias("longest_ms"),
            F.round(F.sum("duration_ms"), 1).alias("total_ms"),
        )
        .orderBy(F.desc("total_ms"), "notebook", "cell")
    )


def debugging(tables: Tables) -> DataFrame:
    """Executions that failed, never ended, or took far longer than the cell usually does."""
    usual = Window.partitionBy("notebook", "cell")
    is_slow = (F.col("duration_ms") > _SLOW_FACTOR * F.col("usual_ms")) & (F.col("duration_ms") > _LEAST_MS)
    return (
        _cells(tables)
        .withColumn("usual_ms", F.round(F.median("duration_ms").over(usual), 1))
        .withColumn("trouble", F.when(F.col("state").isin("failed", "lost"), F.col("state")).when(is_slow, "slow"))
        .where(F.col("trouble").isNotNull())
        .select(
            "started_at",
            "notebook",
            "cell",
            "trouble",
            F.round("duration_ms", 1).alias("duration_ms"),
            "usual_ms",
            F.concat_ws(": ", "error_type", "error_message").alias("error"),
            "session_id",
            "execution_id",
        )
        .orderBy(F.desc_nulls_last("started_at"), "notebook", "cell")
    )


def audit(tables: Tables) -> DataFrame:
    """Every start, end and error of a cell, and every event of a run, with what was read and written."""
    cells = tables["runtime_events"].select(
        F.col("event_time").alias("at"),
        "session_id",
        F.concat_ws(" ", "notebook", _cell_name()).alias("who"),
        F.regexp_replace("event_type", "^cell_execution_", "cell ").alias("what"),
        F.lit("").alias("read"),
        F.lit("").alias("wrote"),
        "seq",
    )
    runs = tables["lineage_events"].select(
        F.col("event_time").alias("at"),
        "session_id",
        F.concat_ws(" ", "job_namespace", "job_name").alias("who"),
        F.concat_ws(" ", F.lower("kind"), F.lower("event_type")).alias("what"),
        _names("inputs").alias("read"),
        _names("outputs").alias("wrote"),
        "seq",
    )
    return cells.unionByName(runs).orderBy("at", "seq")


def resources(tables: Tables) -> DataFrame:
    """Memory and time of each session."""
    memory = F.greatest("start_memory_mb", "end_memory_mb")
    return (
        _cells(tables)
        .groupBy("session_id", "notebook")
        .agg(
            F.min("started_at").alias("started_at"),
            F.count("*").alias("cells"),
            F.round(F.sum("duration_ms") / 1000, 3).alias("cell_seconds"),
            F.round(F.max(memory), 1).alias("peak_memory_mb"),
            F.round(F.max(memory) - F.min_by("start_memory_mb", "started_at"), 1).alias("grown_mb"),
        )
        .orderBy(F.desc_nulls_last("peak_memory_mb"), "session_id")
    )


def _cells(tables: Tables) -> DataFrame:
    return tables["cell_executions"].withColumn("cell", _cell_name())


def _cell_name() -> Column:
    return F.coalesce("cell_name", "cell_id")


def _names(column: str) -> Column:
    return F.array_join(F.transform(column, lambda dataset: dataset["name"]), ", ")
