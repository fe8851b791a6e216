"""The three streams and how a line is told to belong to one."""

from __future__ import annotations

from enum import StrEnum


class Stream(StrEnum):
    """Which kind of event a line of the log holds."""

    OPENLINEAGE = "openlineage"
    RUNTIME = "runtime"
    DATAFRAME = "dataframe"


STREAM_FILES: dict[str, Stream] = {
    "marimo_runtime.jsonl": Stream.RUNTIME,
    "marimo_lineage_events.jsonl": Stream.OPENLINEAGE,
    "marimo_dataframe_lineage.jsonl": Stream.DATAFRAME,
    # Of the listener in a Spark session that a cell made.
    "spark_lineage_events.jsonl": Stream.OPENLINEAGE,
}
