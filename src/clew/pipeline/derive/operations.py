"""Operations: the DataFrame event, its OpenLineage run and its cell, side by side."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

_OWN = (
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


def operations(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per operation of a notebook session."""
    last = F.max_by(F.struct("event_time", "run_uuid", *_OWN), "seq").alias("last")
    # An event of an older agent names no run: it is its own.
    identity = F.coalesce("run_uuid", "event_id").alias("operation_id")
    own = tables["dataframe_events"].groupBy("session_id", identity).agg(last, F.max("seq").alias("last_seq"))
    cells = tables["cell_executions"].select(
        "session_id",
        "execution_id",
        "cell_index",
        F.col("state").alias("cell_state"),
        F.col("duration_ms").alias("cell_duration_ms"),
    )
    states = tables["runs"].select("run_uuid", "job_namespace", "job_name", "state", "started_at", "ended_at")
    return (
        own.select("session_id", "operation_id", "last.*", "last_seq")
        .join(states, "run_uuid", how="left")
        .join(cells, ["session_id", "execution_id"], how="left")
    )
