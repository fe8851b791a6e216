"""What datasets come from and go to, what they look like, how good they are, and what makes them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from clew.reports.closure import reached
from clew.reports.lake_tables import Tables

_MOST_HOPS = 25
_FIELDS = ArrayType(StructType([StructField("name", StringType()), StructField("type", StringType())]))
_COLUMN_METRICS = StructType(
    [
        StructField("nullCount", LongType()),
        StructField("distinctCount", LongType()),
        StructField("min", DoubleType()),
        StructField("max", DoubleType()),
    ]
)
_METRICS = StructType(
    [StructField("rowCount", LongType()), StructField("columnMetrics", MapType(StringType(), _COLUMN_METRICS))]
)
_BETWEEN = "\x1f"


def governance(tables: Tables) -> DataFrame:
    """Everything that each final dataset, one that nothing is made from, comes from."""
    edges = tables["dataset_edges"].select(
        _node("dataset_namespace", "dataset_name").alias("node"),
        _node("source_namespace", "source_name").alias("next"),
    )
    final = edges.select("node").join(edges.select(F.col("next").alias("node")), "node", "left_anti")
    return (
        reached(final, edges, _MOST_HOPS)
        .select(_shown("start").alias("dataset"), _shown("node").alias("source"), "distance")
        .orderBy("dataset", "distance", "source")
    )


def impact(tables: Tables) -> DataFrame:
    """Everything that a change of a source column, one that nothing is known to make, would reach."""
    edges = (
        tables["column_edges"]
        .where(F.col("source_column").isNotNull() & F.col("column").isNotNull() & (F.col("type") == "DIRECT"))
        .select(
            _node("source_namespace", "source_name", "source_column").alias("node"),
            _node("dataset_namespace", "dataset_name", "column").alias("next"),
        )
    )
    sources = edges.select("node").join(edges.select(F.col("next").alias("node")), "node", "left_anti")
    return (
        reached(sources, edges, _MOST_HOPS)
        .select(_shown("start").alias("column"), _shown("node").alias("affected"), "distance")
        .orderBy("column", "distance", "affected")
    )


def schema_discovery(tables: Tables) -> DataFrame:
    """The columns that each dataset has or had, with their types and when they were seen."""
    fields = tables["schemas"].select("schema_id", F.from_json("fields", _FIELDS).alias("fields"))
    last = F.max("last_seq").over(Window.partitionBy("dataset"))
    return (
        tables["run_io"]
        .join(tables["runs"].select("run_uuid", "first_event_at"), "run_uuid", "left")
        .join(fields, "schema_id", "inner")
        .select(_dataset(), "last_seq", "first_event_at", F.explode("fields").alias("field"))
        .withColumn("is_last", F.col("last_seq") == last)
        .groupBy("dataset", F.col("field.name").alias("column"))
        .agg(
            F.max_by("field.type", "last_seq").alias("type"),
            F.count_distinct("field.type").alias("types"),
            F.min("first_event_at").alias("first_seen"),
            F.max("first_event_at").alias("last_seen"),
            F.max("is_last").alias("is_there_now"),
        )
        .orderBy("dataset", "column")
    )


def quality(tables: Tables) -> DataFrame:
    """Metrics of each column whenever they were taken, and how they differ from the time before."""
    taken = (
        tables["dataset_facets"]
        .where(F.col("name").isin("dataQualityMetrics", "columnMetrics") & F.col("facet").isNotNull())
        .select(
            _dataset(), F.col("lineage_event_time").alias("at"), "seq", F.from_json("facet", _METRICS).alias("said")
        )
        .select("dataset", "at", "seq", "said.rowCount", F.explode("said.columnMetrics"))
        .groupBy("dataset", F.col("key").alias("column"), "at")
        .agg(F.max_by("rowCount", "seq").alias("rows"), F.max_by("value", "seq").alias("value"))
    )
    before = Window.partitionBy("dataset", "column").orderBy("at")
    nulls = F.round(F.col("value.nullCount") / F.col("rows"), 4)
    return taken.select(
        "dataset",
        "column",
        "at",
        "rows",
        nulls.alias("null_share"),
        F.col("value.distinctCount").alias("distinct"),
        F.col("value.min").alias("min"),
        F.col("value.max").alias("max"),
        F.round(nulls - F.lag(nulls).over(before), 4).alias("null_share_change"),
        (F.col("rows") - F.lag("rows").over(before)).alias("row_change"),
    ).orderBy("dataset", "column", "at")


def documentation(tables: Tables) -> DataFrame:
    """Every job: what it is, what it reads and writes, how often and how well it runs."""
    edges = (
        tables["job_edges"]
        .groupBy(F.col("job_namespace").alias("namespace"), F.col("job_name").alias("name"))
        .agg(_datasets_of("INPUT").alias("reads"), _datasets_of("OUTPUT").alias("writes"))
    )
    runs = (
        tables["runs"]
        .groupBy(F.col("job_namespace").alias("namespace"), F.col("job_name").alias("name"))
        .agg(
            F.count("*").alias("runs"),
            F.count_if(F.col("state") == "FAILED").alias("failed"),
            F.max_by("state", "last_event_at").alias("last_state"),
            F.max("last_event_at").alias("last_run_at"),
        )
    )
    return (
        tables["jobs"]
        .select("namespace", "name", "job_type", "description")
        .join(edges, ["namespace", "name"], "left")
        .join(runs, ["namespace", "name"], "left")
        .select(
            F.concat_ws(" ", "namespace", "name").alias("job"),
            F.col("job_type").alias("type"),
            "description",
            "reads",
            "writes",
            "runs",
            "failed",
            "last_state",
            "last_run_at",
        )
        .orderBy("job")
    )


def _datasets_of(direction: str) -> Column:
    named = F.when(F.col("direction") == direction, F.col("dataset_name"))
    return F.array_join(F.array_sort(F.collect_set(named)), ", ")


def _dataset() -> Column:
    return F.concat_ws(":", "dataset_namespace", "dataset_name").alias("dataset")


def _node(*parts: str) -> Column:
    return F.concat_ws(_BETWEEN, *parts)


def _shown(node: str) -> Column:
    """`namespace:dataset.column` of a node."""
    parts = F.split(node, _BETWEEN)
    column = F.when(F.size(parts) > 2, F.concat(F.lit("."), parts[2])).otherwise("")
    return F.concat(parts[0], F.lit(":"), parts[1], column)
