"""The three event streams and their file names."""

from __future__ import annotations

from enum import StrEnum


class Stream(StrEnum):
    """Stream of an event."""

    OPENLINEAGE = "openlineage"
    RUNTIME = "runtime"
    DATAFRAME = "dataframe"


STREAM_FILES: dict[str, Stream] = {
    "marimo_runtime.jsonl": Stream.RUNTIME,
    "marimo_lineage_events.jsonl": Stream.OPENLINEAGE,
    "marimo_dataframe_lineage.jsonl": Stream.DATAFRAME,
    # Written by the listener of a Spark session that a cell created.
    "spark_lineage_events.jsonl": Stream.OPENLINEAGE,
}
