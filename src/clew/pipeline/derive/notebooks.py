"""Cell executions and operations of notebooks."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from clew.events.openlineage import TERMINAL_RANK
from clew.lake.schemas import FRAME_TYPE
from clew.pipeline.derive.scope import OPERATION_RUN, SESSION, RefreshScope, times
from clew.pipeline.spark.dataframes import spark_type


def derive_cell_executions(scope: RefreshScope) -> DataFrame:
    """One row per cell execution; without an end event it is `lost` once its session continued or ended."""
    cells = scope.rows("state_cell_executions", SESSION, "session_id").drop("state_rank")
    latest = F.max("started_at").over(Window.partitionBy("session_id"))
    is_over = F.coalesce(F.col("is_over"), F.lit(False)) | (F.col("started_at") < latest)  # noqa: FBT003
    runs = scope.rows("state_runs", SESSION, "session_id")
    ended = runs.where((F.col("state_rank") == TERMINAL_RANK) & F.col("parent_run_uuid").isNull())
    sessions = ended.select("session_id", F.lit(True).alias("is_over")).where("session_id is not null").distinct()  # noqa: FBT003
    executions = (
        cells.join(sessions, "session_id", how="left")
        .withColumn("state", F.when((F.col("state") == "running") & is_over, "lost").otherwise(F.col("state")))
        .drop("is_over")
    )
    return times(executions, "started_at", "ended_at")


def derive_operations(scope: RefreshScope) -> DataFrame:
    """One row per operation of a notebook session, with its run and cell."""
    frames = {
        f"{direction}_dataframes": F.from_json(f"{direction}s", f"array<{spark_type(FRAME_TYPE)}>")
        for direction in ("input", "output")
    }
    operations = scope.rows("state_operations", SESSION, "session_id").withColumns(frames).drop("inputs", "outputs")
    cells = scope.rows("cell_executions", SESSION, "session_id").select(
        "session_id",
        "execution_id",
        "cell_index",
        F.col("state").alias("cell_state"),
        F.col("duration_ms").alias("cell_duration_ms"),
    )
    runs = scope.rows("runs", OPERATION_RUN, "run_uuid").select(
        "run_uuid", "job_namespace", "job_name", "state", "started_at", "ended_at"
    )
    joined = times(operations, "event_time").join(runs, "run_uuid", how="left")
    return joined.join(cells, ["session_id", "execution_id"], how="left")
