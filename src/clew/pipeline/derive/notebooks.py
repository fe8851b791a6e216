"""Cell executions and operations of notebooks."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.events.openlineage import TERMINAL_RANK


def derive_cell_executions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per cell execution; without an end event it is `lost` once its session continued or ended."""
    latest = F.max("started_at").over(Window.partitionBy("session_id"))
    is_over = F.coalesce(F.col("is_over"), F.lit(False)) | (F.col("started_at") < latest)  # noqa: FBT003
    return (
        _aggregate_events(tables["runtime_events"])
        .join(_ended_sessions(tables["runs"]), "session_id", how="left")
        .withColumn("state", F.when((F.col("state") == "running") & is_over, "lost").otherwise(F.col("state")))
        .drop("is_over")
    )


def _ended_sessions(runs: DataFrame) -> DataFrame:
    """Find sessions with an ended root run."""
    ended = runs.where((F.col("state_rank") == TERMINAL_RANK) & F.col("parent_run_uuid").isNull())
    return ended.select("session_id", F.lit(True).alias("is_over")).where("session_id is not null").distinct()  # noqa: FBT003


def _aggregate_events(runtime_events: DataFrame) -> DataFrame:
    """Aggregate events to one row per cell execution; without an end event it is `running`."""
    is_start = F.col("event_type") == "cell_execution_start"
    is_error = F.col("event_type") == "cell_execution_error"
    is_end = F.col("event_type") == "cell_execution_end"
    executions = runtime_events.groupBy("session_id", "execution_id").agg(
        *(F.max(column).alias(column) for column in ("notebook", "cell_id", "cell_name", "cell_index", "cell_source")),
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
    return executions.withColumn("state", _state()).drop("is_failed", "is_stopped", "is_ended")


def _state() -> Column:
    return (
        F.when(F.col("is_failed"), "failed")
        .when(F.col("is_stopped"), "stopped")
        .when(F.col("is_ended"), "completed")
        .otherwise("running")
    )


_EVENT_COLUMNS = (
    "execution_id",
    "cell_id",
    "cell_name",
    "notebook",
    "operation_type",
    "operation_method",
    "operation_code",
    "line",
    "end_line",
    "count",
    "input_dataframes",
    "output_dataframes",
    "overhead_ms",
    "duration_ms",
    "df_size_mb",
)


def derive_operations(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per operation of a notebook session."""
    last = F.max_by(F.struct("event_time", "run_uuid", *_EVENT_COLUMNS), "seq").alias("last")
    # Events of older agents have no run id.
    identity = F.coalesce("run_uuid", "event_id").alias("operation_id")
    events = tables["dataframe_events"].groupBy("session_id", identity).agg(last, F.max("seq").alias("last_seq"))
    cells = tables["cell_executions"].select(
        "session_id",
        "execution_id",
        "cell_index",
        F.col("state").alias("cell_state"),
        F.col("duration_ms").alias("cell_duration_ms"),
    )
    states = tables["runs"].select("run_uuid", "job_namespace", "job_name", "state", "started_at", "ended_at")
    return (
        events.select("session_id", "operation_id", "last.*", "last_seq")
        .join(states, "run_uuid", how="left")
        .join(cells, ["session_id", "execution_id"], how="left")
    )
