"""What datasets held when a run read or wrote them: their schemas, and how many rows."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.events.dataset_facets import ROW_COUNT_FACETS, ROW_COUNT_KEY
from clew.lake.facet_columns import ROW_COUNT, SCHEMA, SCHEMA_ID
from clew.pipeline.derive.opening import opened

_KEY = ["run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"]


def contents(dataset_facets: DataFrame) -> DataFrame:
    """One row per run, direction, dataset and version: the schema and the number of rows that were said last."""
    name, facet = F.col("name"), F.col("facet")
    is_schema = (name == "schema") & (F.col("type") == "DATASET")
    is_count = name.isin(*ROW_COUNT_FACETS) & F.coalesce("says_row_count", facet.contains(ROW_COUNT_KEY))
    # Of several in one event the last counts; the end of the uuid is the facet's place.
    said = {name: F.when(told, F.struct("turn", "uuid")) for name, told in (("schema", is_schema), ("count", is_count))}
    last = (
        dataset_facets.where(F.col("run_uuid").isNotNull() & F.col("direction").isNotNull() & (is_schema | is_count))
        .groupBy(*_KEY)
        .agg(
            *(F.max_by("facet", place).alias(name) for name, place in said.items()),
            F.max_by("seq", said["schema"]).alias("schema_seq"),
            F.max_by("seq", said["count"]).alias("row_count_seq"),
        )
    )
    return opened(last, {"schema": SCHEMA_ID, "count": ROW_COUNT})


def schemas(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Each schema once."""
    is_schema = (F.col("name") == "schema") & (F.col("type") == "DATASET")
    bodies = tables["dataset_facets"].where(is_schema).select("facet").distinct()
    return opened(bodies, {"facet": SCHEMA}).where(F.col("schema_id").isNotNull()).distinct()
