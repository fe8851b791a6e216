"""Cell executions: start, end and error of a cell joined, in whatever order they came."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F


def cell_executions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per execution of a cell; `running` is one whose end has not been seen."""
    is_start = F.col("event_type") == "cell_execution_start"
    is_error = F.col("event_type") == "cell_execution_error"
    is_end = F.col("event_type") == "cell_execution_end"
    joined = (
        tables["runtime_events"]
        .groupBy("session_id", "execution_id")
        .agg(
            *(
                F.max(column).alias(column)
                for column in ("notebook", "cell_id", "cell_name", "cell_index", "cell_source")
            ),
            F.min(F.when(is_start, F.col("event_time"))).alias("started_at"),
            F.max(F.when(is_end | is_error, F.col("event_time"))).alias("ended_at"),
            *(F.max(column).alias(column) for column in ("start_memory_mb", "end_memory_mb", "duration_ms")),
            *(F.max(column).alias(column) for column in ("error_type", "error_message", "traceback")),
            F.coalesce(F.max(is_error), F.lit(False)).alias("is_failed"),  # noqa: FBT003
            F.coalesce(F.max("stopped"), F.lit(False)).alias("is_stopped"),  # noqa: FBT003
            F.coalesce(F.max(is_end), F.lit(False)).alias("is_ended"),  # noqa: FBT003
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
        )
    )
    return joined.withColumn("state", _state()).drop("is_failed", "is_stopped", "is_ended")


def _state() -> Column:
    return (
        F.when(F.col("is_failed"), "failed")
        .when(F.col("is_stopped"), "stopped")
        .when(F.col("is_ended"), "completed")
        .otherwise("running")
    )
