"""Schema and row count of the inputs and outputs of runs."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.events.dataset_facets import ROW_COUNT_FACETS, ROW_COUNT_KEY
from clew.lake.facet_columns import ROW_COUNT, SCHEMA, SCHEMA_ID
from clew.pipeline.derive.opening import parse_facets

_KEY = ["run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"]


def io_schema_and_row_count(dataset_facets: DataFrame) -> DataFrame:
    """One row per run, direction, dataset and version with the latest schema and row count."""
    name, facet = F.col("name"), F.col("facet")
    is_schema = (name == "schema") & (F.col("type") == "DATASET")
    is_count = name.isin(*ROW_COUNT_FACETS) & F.coalesce("has_row_count", facet.contains(ROW_COUNT_KEY))
    # Of several facets in one event the last wins: the uuid ends with the position in the event.
    order = {
        name: F.when(condition, F.struct("precedence", "uuid"))
        for name, condition in (("schema", is_schema), ("count", is_count))
    }
    last = (
        dataset_facets.where(F.col("run_uuid").isNotNull() & F.col("direction").isNotNull() & (is_schema | is_count))
        .groupBy(*_KEY)
        .agg(
            *(F.max_by("facet", key).alias(name) for name, key in order.items()),
            F.max_by("seq", order["schema"]).alias("schema_seq"),
            F.max_by("seq", order["count"]).alias("row_count_seq"),
        )
    )
    return parse_facets(last, {"schema": SCHEMA_ID, "count": ROW_COUNT})


def derive_schemas(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per distinct schema."""
    is_schema = (F.col("name") == "schema") & (F.col("type") == "DATASET")
    bodies = tables["dataset_facets"].where(is_schema).select("facet").distinct()
    return parse_facets(bodies, {"facet": SCHEMA}).where(F.col("schema_id").isNotNull()).distinct()
