"""Lineage between columns, from the columnLineage facets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from clew.lake.column_lineage import STATED_EDGES, stated_edges
from clew.pipeline.derive.run_io import event_io

_STATEMENT = ["run_uuid", "job_namespace", "job_name", "dataset_namespace", "dataset_name", "dataset_version"]


def column_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per edge that a run stated; of several statements on one output the last counts, whole."""
    facets = tables["dataset_facets"].where(
        (F.col("name") == "columnLineage") & F.col("direction").eqNullSafe("OUTPUT")
    )
    events = tables["lineage_events"].select("event_id", "job_namespace", "job_name", "session_id", "event_time")
    stated = facets.select(
        "event_id", "seq", "run_uuid", "dataset_namespace", "dataset_name", "dataset_version", "facet"
    )
    last = F.max_by(F.struct("event_id", "facet", "event_time", "session_id", "seq"), "seq").alias("last")
    statements = (
        stated.join(events, "event_id", how="inner").groupBy(*_STATEMENT).agg(last).select(*_STATEMENT, "last.*")
    )
    edges = statements.mapInArrow(_explode, from_arrow_schema(STATED_EDGES))
    return edges.join(
        _input_versions(tables["lineage_events"]), ["event_id", "source_namespace", "source_name"], how="left"
    )


def _input_versions(lineage_events: DataFrame) -> DataFrame:
    inputs = event_io(lineage_events).where((F.col("direction") == "INPUT") & F.col("dataset_version").isNotNull())
    return inputs.groupBy(
        "event_id", F.col("dataset_namespace").alias("source_namespace"), F.col("dataset_name").alias("source_name")
    ).agg(F.max("dataset_version").alias("source_version"))


def _explode(statements: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (stated_edges(batch) for batch in statements)
