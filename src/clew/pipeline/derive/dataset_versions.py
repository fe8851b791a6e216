"""Dataset versions: one per completed write, and per state that a DatasetEvent declares."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from clew.lake.facet_columns import LIFECYCLE_STATE, SCHEMA_ID
from clew.pipeline.derive.opening import parse_facets

_DATASET = ["dataset_namespace", "dataset_name"]


def derive_dataset_versions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per completed write, and per schema and lifecycle state that DatasetEvents declare."""
    written = _written(tables["run_io"], tables["runs"])
    return written.unionByName(_declared(tables["dataset_facets"]), allowMissingColumns=True)


def _declared(dataset_facets: DataFrame) -> DataFrame:
    """One row per dataset, schema and lifecycle state that DatasetEvents declare."""
    name, has_run = F.col("name"), F.col("run_uuid").isNotNull()
    declaring = name.isin("schema", "lifecycleStateChange") & F.col("direction").isNull() & ~has_run
    declarations = (
        dataset_facets.where(declaring & (F.col("type") == "DATASET"))
        .groupBy("event_id", "seq", *_DATASET)
        .agg(
            F.max("lineage_event_time").alias("event_time"),
            F.max("dataset_version").alias("version"),
            F.max(F.when(name == "schema", F.col("facet"))).alias("schema"),
            F.max(F.when(name == "lifecycleStateChange", F.col("facet"))).alias("change"),
        )
    )
    states = parse_facets(declarations, {"schema": SCHEMA_ID, "change": LIFECYCLE_STATE})
    declared = states.where(F.col("schema_id").isNotNull() | F.col("lifecycle_state").isNotNull())
    return declared.groupBy(*_DATASET, "schema_id", "lifecycle_state").agg(
        F.max_by("version", "seq").alias("version"),
        F.min("event_time").alias("created_at"),
        F.max("seq").alias("last_seq"),
    )


def _written(run_io: DataFrame, runs: DataFrame) -> DataFrame:
    # Outputs of a run with and without a version are one write: early events may lack the version.
    of_dataset = Window.partitionBy("run_uuid", *_DATASET)
    outputs = run_io.where(F.col("direction") == "OUTPUT").withColumn(
        "has_version", F.max(F.col("dataset_version").isNotNull()).over(of_dataset)
    )
    completed = runs.where(F.col("state") == "COMPLETED").select("run_uuid", "job_namespace", "job_name", "ended_at")
    return (
        outputs.where(~F.col("has_version") | F.col("dataset_version").isNotNull())
        .drop("job_namespace", "job_name")
        .join(completed, "run_uuid", how="inner")
        .select(
            *_DATASET,
            F.col("dataset_version").alias("version"),
            "run_uuid",
            "job_namespace",
            "job_name",
            F.col("ended_at").alias("created_at"),
            "schema_id",
            "row_count",
            "last_seq",
        )
    )
