"""Tables of the lake reports: cells, datasets, transitive dependencies."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from clew.pipeline.spark.dataframes import Tables

# A cell is slow if it needs this many times its median duration, and at least _MIN_SLOW_MS.
_SLOW_FACTOR = 2.0
_MIN_SLOW_MS = 10.0


def performance_report(tables: Tables) -> DataFrame:
    """Report the duration of each cell."""
    return (
        _cells(tables)
        .where(F.col("duration_ms").isNotNull())
        .groupBy("notebook", "cell")
        .agg(
            F.count("*").alias("executions"),
            F.round(F.median("duration_ms"), 1).alias("median_ms"),
            F.round(F.max("duration_ms"), 1).alias("max_ms"),
            F.round(F.sum("duration_ms"), 1).alias("total_ms"),
        )
        .orderBy(F.desc("total_ms"), "notebook", "cell")
    )


def debugging_report(tables: Tables) -> DataFrame:
    """Report executions that failed, never ended, or were much slower than the median of the cell."""
    by_cell = Window.partitionBy("notebook", "cell")
    is_slow = (F.col("duration_ms") > _SLOW_FACTOR * F.col("median_ms")) & (F.col("duration_ms") > _MIN_SLOW_MS)
    return (
        _cells(tables)
        .withColumn("median_ms", F.round(F.median("duration_ms").over(by_cell), 1))
        .withColumn("issue", F.when(F.col("state").isin("failed", "lost"), F.col("state")).when(is_slow, "slow"))
        .where(F.col("issue").isNotNull())
        .select(
            "started_at",
            "notebook",
            "cell",
            "issue",
            F.round("duration_ms", 1).alias("duration_ms"),
            "median_ms",
            F.concat_ws(": ", "error_type", "error_message").alias("error"),
            "session_id",
            "execution_id",
        )
        .orderBy(F.desc_nulls_last("started_at"), "notebook", "cell")
    )


def audit_report(tables: Tables) -> DataFrame:
    """Report each start, end and error of a cell, and each run event with its inputs and outputs."""
    cells = tables["runtime_events"].select(
        F.col("event_time").alias("at"),
        "session_id",
        F.concat_ws(" ", "notebook", _cell_name()).alias("actor"),
        F.regexp_replace("event_type", "^cell_execution_", "cell ").alias("action"),
        F.lit("").alias("read"),
        F.lit("").alias("wrote"),
        "seq",
    )
    runs = tables["lineage_events"].select(
        F.col("event_time").alias("at"),
        "session_id",
        F.concat_ws(" ", "job_namespace", "job_name").alias("actor"),
        F.concat_ws(" ", F.lower("kind"), F.lower("event_type")).alias("action"),
        _cell_dataset_names("inputs").alias("read"),
        _cell_dataset_names("outputs").alias("wrote"),
        "seq",
    )
    return cells.unionByName(runs).orderBy("at", "seq")


def resources_report(tables: Tables) -> DataFrame:
    """Report memory and time of each session."""
    memory = F.greatest("start_memory_mb", "end_memory_mb")
    return (
        _cells(tables)
        .groupBy("session_id", "notebook")
        .agg(
            F.min("started_at").alias("started_at"),
            F.count("*").alias("cells"),
            F.round(F.sum("duration_ms") / 1000, 3).alias("cell_seconds"),
            F.round(F.max(memory), 1).alias("peak_memory_mb"),
            F.round(F.max(memory) - F.min_by("start_memory_mb", "started_at"), 1).alias("memory_increase_mb"),
        )
        .orderBy(F.desc_nulls_last("peak_memory_mb"), "session_id")
    )


def _cells(tables: Tables) -> DataFrame:
    return tables["cell_executions"].withColumn("cell", _cell_name())


def _cell_name() -> Column:
    return F.coalesce("cell_name", "cell_id")


def _cell_dataset_names(column: str) -> Column:
    return F.array_join(F.transform(column, lambda dataset: dataset["name"]), ", ")


def transitive_closure(starts: DataFrame, edges: DataFrame, depth: int) -> DataFrame:
    """Compute the nodes reachable from each start and their minimum distance.

    `starts` has the column `node`, `edges` has `node` and `next`; the result has `start`, `node` and `distance`.
    """
    frontier = starts.select(F.col("node").alias("start"), "node").distinct().withColumn("distance", F.lit(0))
    reachable = frontier
    steps = edges.select("node", "next").distinct().cache()
    for distance in range(1, depth + 1):
        # Without the checkpoint, the plan of each hop would contain the plans of all previous hops twice.
        frontier = (
            frontier.join(steps, "node", "inner")
            .select("start", F.col("next").alias("node"), F.lit(distance).alias("distance"))
            .distinct()
            .join(reachable, ["start", "node"], "left_anti")
            .localCheckpoint()
        )
        if frontier.isEmpty():
            break
        reachable = reachable.unionByName(frontier)
    return reachable.where("distance > 0")


_MAX_HOPS = 25
_FIELDS = ArrayType(StructType([StructField("name", StringType()), StructField("type", StringType())]))
_COLUMN_METRICS = StructType(
    [
        StructField("nullCount", LongType()),
        StructField("distinctCount", LongType()),
        StructField("min", DoubleType()),
        StructField("max", DoubleType()),
        StructField("sampled", BooleanType()),
    ]
)
_METRICS = StructType(
    [StructField("rowCount", LongType()), StructField("columnMetrics", MapType(StringType(), _COLUMN_METRICS))]
)
_SEPARATOR = "\x1f"


def governance_report(tables: Tables) -> DataFrame:
    """Report all upstream datasets of each final dataset (one without downstream datasets).

    The inputs of a job with very many inputs and outputs are reported as the job.
    """
    source, job = _node_key("source_namespace", "source_name"), _node_key("job_namespace", "job_name")
    edges = tables["dataset_edges"].select(
        _node_key("dataset_namespace", "dataset_name").alias("node"),
        F.when(F.col("source_name").isNull(), job).otherwise(source).alias("next"),
    )
    return _reachable_from_ends(edges, "dataset", "source")


def impact_report(tables: Tables) -> DataFrame:
    """Report all columns affected by each source column (one without upstream columns)."""
    edges = (
        tables["column_edges"]
        .where(F.col("source_column").isNotNull() & F.col("column").isNotNull() & (F.col("type") == "DIRECT"))
        .select(
            _node_key("source_namespace", "source_name", "source_column").alias("node"),
            _node_key("dataset_namespace", "dataset_name", "column").alias("next"),
        )
    )
    return _reachable_from_ends(edges, "column", "affected")


def _reachable_from_ends(edges: DataFrame, start: str, end: str) -> DataFrame:
    """Report what is reachable from each node that no edge leads to, with the names of both columns."""
    starts = edges.select("node").join(edges.select(F.col("next").alias("node")), "node", "left_anti")
    return (
        transitive_closure(starts, edges, _MAX_HOPS)
        .select(_display_name("start").alias(start), _display_name("node").alias(end), "distance")
        .orderBy(start, "distance", end)
    )


def schema_report(tables: Tables) -> DataFrame:
    """Report the current and past columns of each dataset, with types and first and last occurrence."""
    fields = tables["schemas"].select("schema_id", F.from_json("fields", _FIELDS).alias("fields"))
    last_seq = F.max("last_seq").over(Window.partitionBy("dataset"))
    return (
        tables["run_io"]
        .join(tables["runs"].select("run_uuid", "first_event_at"), "run_uuid", "left")
        .join(fields, "schema_id", "inner")
        .select(_dataset_id(), "last_seq", "first_event_at", F.explode("fields").alias("field"))
        .withColumn("is_last", F.col("last_seq") == last_seq)
        .groupBy("dataset", F.col("field.name").alias("column"))
        .agg(
            F.max_by("field.type", "last_seq").alias("type"),
            F.count_distinct("field.type").alias("type_count"),
            F.min("first_event_at").alias("first_seen"),
            F.max("first_event_at").alias("last_seen"),
            F.max("is_last").alias("is_current"),
        )
        .orderBy("dataset", "column")
    )


def quality_report(tables: Tables) -> DataFrame:
    """Report the metrics of each column over time, and the change since the previous measurement."""
    metrics = (
        tables["dataset_facets"]
        .where(F.col("name").isin("dataQualityMetrics", "columnMetrics") & F.col("facet").isNotNull())
        .select(
            _dataset_id(),
            F.col("lineage_event_time").alias("at"),
            "seq",
            F.from_json("facet", _METRICS).alias("parsed"),
        )
        .select("dataset", "at", "seq", "parsed.rowCount", F.explode("parsed.columnMetrics"))
        .groupBy("dataset", F.col("key").alias("column"), "at")
        .agg(F.max_by("rowCount", "seq").alias("rows"), F.max_by("value", "seq").alias("value"))
    )
    by_time = Window.partitionBy("dataset", "column").orderBy("at")
    nulls = F.round(F.col("value.nullCount") / F.col("rows"), 4)
    return metrics.select(
        "dataset",
        "column",
        "at",
        "rows",
        nulls.alias("null_share"),
        F.col("value.distinctCount").alias("distinct"),
        F.col("value.sampled").isNotNull().alias("distinct_is_estimate"),
        F.col("value.min").alias("min"),
        F.col("value.max").alias("max"),
        F.round(nulls - F.lag(nulls).over(by_time), 4).alias("null_share_change"),
        (F.col("rows") - F.lag("rows").over(by_time)).alias("row_change"),
    ).orderBy("dataset", "column", "at")


def documentation_report(tables: Tables) -> DataFrame:
    """Report each job with its inputs, outputs and run statistics."""
    edges = (
        tables["job_edges"]
        .groupBy(F.col("job_namespace").alias("namespace"), F.col("job_name").alias("name"))
        .agg(_dataset_names("INPUT").alias("reads"), _dataset_names("OUTPUT").alias("writes"))
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


def _dataset_names(direction: str) -> Column:
    name = F.when(F.col("direction") == direction, F.col("dataset_name"))
    return F.array_join(F.array_sort(F.collect_set(name)), ", ")


def _dataset_id() -> Column:
    return F.concat_ws(":", "dataset_namespace", "dataset_name").alias("dataset")


def _node_key(*parts: str) -> Column:
    return F.concat_ws(_SEPARATOR, *parts)


def _display_name(node: str) -> Column:
    """Format a node key as `namespace:dataset.column`."""
    parts = F.split(node, _SEPARATOR)
    column = F.when(F.size(parts) > 2, F.concat(F.lit("."), parts[2])).otherwise("")
    return F.concat(parts[0], F.lit(":"), parts[1], column)
