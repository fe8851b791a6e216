"""Operations: DataFrame events joined with their OpenLineage runs and cells."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

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
