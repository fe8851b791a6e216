"""Runs, inputs and outputs of runs, jobs, job versions; cell executions and operations of notebooks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.events.ids import NAME_SEPARATOR, compute_job_version_from_keys
from clew.events.openlineage import DEFAULT_STATE, TERMINAL_RANK
from clew.lake.schemas import FRAME_TYPE
from clew.pipeline.derive.scope import JOB, OPERATION_RUN, RUN, SESSION, RefreshScope, times
from clew.pipeline.spark.dataframes import spark_type

_JOB = ("job_namespace", "job_name")
_DATASETS = "array<struct<namespace: string, name: string>>"
_RUN_TIMES = (
    "state_at",
    "started_at",
    "ended_at",
    "first_event_at",
    "last_event_at",
    "nominal_start_at",
    "nominal_end_at",
)
_JOB_TIMES = ("latest_run_at", "first_event_at", "last_event_at")
# Columns of the states that only the merge or the index needs.
_RUN_MERGE_COLUMNS = (
    *("parent_order_time", "nominal_order_time", "error_order_time", "source_code_location_order_time"),
    *("has_lineage_entries", "job_version"),
)
_JOB_MERGE_COLUMNS = (
    *("type_order_time", "description_order_time"),
    *("parent_job_namespace", "parent_job_name", "parent_order_time", "parent_seq"),
)


def derive_runs(scope: RefreshScope) -> DataFrame:
    """One row per run with its job version, including runs that are only referenced as parent or root."""
    runs = scope.rows("state_runs", RUN, "run_uuid").drop(*_RUN_MERGE_COLUMNS)
    runs = runs.withColumn("state_rank", F.col("state_rank").cast("int"))
    referenced = scope.rows("state_referenced_runs", RUN, "run_uuid")
    placeholders = referenced.join(runs.select("run_uuid"), "run_uuid", how="left_anti").select(
        "*",
        F.lit(True).alias("is_placeholder"),  # noqa: FBT003
        F.lit(DEFAULT_STATE).alias("state"),
        F.lit(0).alias("state_rank"),
    )
    observed = _with_job_versions(runs, scope).withColumn("is_placeholder", F.lit(False))  # noqa: FBT003
    return times(observed.unionByName(placeholders, allowMissingColumns=True), *_RUN_TIMES)


def _with_job_versions(runs: DataFrame, scope: RefreshScope) -> DataFrame:
    is_ended = (F.col("state_rank") == TERMINAL_RANK) & F.col("job_name").isNotNull()
    io = scope.rows("state_run_io", RUN, "run_uuid")
    key = F.concat("dataset_namespace", F.lit(NAME_SEPARATOR), "dataset_name")
    keys = io.groupBy("run_uuid").agg(
        *(
            F.collect_set(F.when(F.col("direction") == direction, key)).alias(column)
            for direction, column in (("INPUT", "inputs"), ("OUTPUT", "outputs"))
        )
    )
    ended = runs.where(is_ended).select("run_uuid", *_JOB, "source_code_location").join(keys, "run_uuid", how="left")
    versions = ended.mapInArrow(_compute_versions, "run_uuid string, job_version string")
    return runs.join(versions, "run_uuid", how="left")


def _compute_versions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        versions = [
            compute_job_version_from_keys(
                (row["job_namespace"] or "", row["job_name"]),
                set(row["inputs"] or ()),
                set(row["outputs"] or ()),
                row["source_code_location"],
            )
            for row in batch.to_pylist()
        ]
        yield pa.RecordBatch.from_pydict(
            {"run_uuid": batch["run_uuid"], "job_version": pa.array(versions, pa.string())}
        )


def derive_run_io(scope: RefreshScope) -> DataFrame:
    """One row per run, direction, dataset and version: the union over all events of the run."""
    io = scope.rows("state_run_io", RUN, "run_uuid").withColumn(
        "dataset_version", F.nullif("dataset_version", F.lit(""))
    )
    return io.drop("schema_order_time", "row_count_order_time", "first_seq", "last_event_at")


def observed_versions(scope: RefreshScope) -> DataFrame:
    """One row per job and version, from ended runs and JobEvents, without inputs and outputs."""
    # All runs of the jobs: many rows, few columns.
    columns = (*_JOB, "job_version", "ended_at", "state_seq", "run_uuid")
    runs = scope.rows("runs", JOB, *_JOB, select=columns).where(F.col("job_version").isNotNull())
    of_runs = runs.select(
        *_JOB,
        F.col("job_version").alias("version"),
        F.col("ended_at").alias("created_at"),
        F.col("ended_at").alias("observed_at"),
        *(F.col("state_seq").alias(name) for name in ("observed_seq", "first_seq", "last_seq")),
        "run_uuid",
    )
    declarations = times(scope.rows("state_job_declarations", JOB, *_JOB), "created_at", "declared_at").select(
        *_JOB,
        "version",
        "created_at",
        F.col("declared_at").alias("observed_at"),
        F.col("declared_seq").alias("observed_seq"),
        "first_seq",
        "last_seq",
        F.lit(None).cast("string").alias("run_uuid"),
    )
    order = F.struct("observed_at", "observed_seq")
    of_run = F.when(F.col("run_uuid").isNotNull(), order)
    return (
        of_runs.unionByName(declarations)
        .groupBy(*_JOB, "version")
        .agg(
            F.min("created_at").alias("created_at"),
            F.min_by("run_uuid", of_run).alias("first_run_uuid"),
            F.max_by("run_uuid", of_run).alias("latest_run_uuid"),
            F.count("run_uuid").alias("run_count"),
            F.min("first_seq").alias("first_seq"),
            F.max("last_seq").alias("last_seq"),
            F.max(order).alias("observed"),
        )
    )


def derive_job_versions(scope: RefreshScope, versions: DataFrame) -> DataFrame:
    """One row per job and version, from runs and JobEvents."""
    contents = (
        _version_contents(scope)
        .groupBy(*_JOB, "version")
        .agg(*(F.any_value(column).alias(column) for column in ("inputs", "outputs", "source_code_location")))
    )
    return versions.drop("observed").join(contents, [*_JOB, "version"], how="left")


def _version_contents(scope: RefreshScope) -> DataFrame:
    """Return inputs, outputs and code location of versions. The version is a hash of them."""
    columns = [*_JOB, "version", "inputs", "outputs", "source_code_location"]
    runs = scope.rows("runs", RUN, "run_uuid").where(F.col("job_version").isNotNull())
    io = scope.rows("state_run_io", RUN, "run_uuid").groupBy("run_uuid").agg(_datasets("INPUT"), _datasets("OUTPUT"))
    of_runs = runs.withColumnRenamed("job_version", "version").join(io, "run_uuid", how="left")
    declared = scope.rows("state_job_declarations", JOB, *_JOB).withColumns(
        {column: F.from_json(column, _DATASETS) for column in ("inputs", "outputs")}
    )
    contents = _without_null_lists(of_runs).select(*columns).unionByName(declared.select(*columns))
    # Versions of earlier refreshes.
    return (
        contents
        if scope.units is None
        else contents.unionByName(scope.rows("job_versions", JOB, *_JOB).select(*columns))
    )


def _datasets(direction: str) -> Column:
    dataset = F.struct(F.col("dataset_namespace").alias("namespace"), F.col("dataset_name").alias("name"))
    column = "inputs" if direction == "INPUT" else "outputs"
    return F.sort_array(F.collect_set(F.when(F.col("direction") == direction, dataset))).alias(column)


def _without_null_lists(rows: DataFrame) -> DataFrame:
    empty = F.array().cast(_DATASETS)
    return rows.withColumns({column: F.coalesce(column, empty) for column in ("inputs", "outputs")})


def derive_jobs(scope: RefreshScope, versions: DataFrame) -> DataFrame:
    """One row per job, including jobs that are only referenced as parent or root."""
    name = ("namespace", "name")
    jobs = scope.rows("state_jobs", JOB, *name).drop(*_JOB_MERGE_COLUMNS)
    current = (
        versions.groupBy(*_JOB)
        .agg(F.max_by("version", "observed").alias("current_version"))
        .toDF(*name, "current_version")
    )
    referenced = scope.rows("state_referenced_jobs", JOB, *name)
    placeholders = referenced.join(jobs.select(*name), list(name), how="left_anti").withColumn(
        "is_placeholder",
        F.lit(True),  # noqa: FBT003
    )
    observed = jobs.join(current, list(name), how="left").withColumn("is_placeholder", F.lit(False))  # noqa: FBT003
    return times(observed.unionByName(placeholders, allowMissingColumns=True), *_JOB_TIMES)


def derive_cell_executions(scope: RefreshScope) -> DataFrame:
    """One row per cell execution; without an end event it is `lost` once its session continued or ended."""
    cells = scope.rows("state_cell_executions", SESSION, "session_id").drop("state_rank")
    latest = F.max("started_at").over(Window.partitionBy("session_id"))
    is_over = F.coalesce(F.col("is_over"), F.lit(False)) | (F.col("started_at") < latest)  # noqa: FBT003
    runs = scope.rows("state_runs", SESSION, "session_id")
    ended = runs.where((F.col("state_rank") == TERMINAL_RANK) & F.col("parent_run_uuid").isNull())
    sessions = ended.select("session_id", F.lit(True).alias("is_over")).where("session_id is not null").distinct()  # noqa: FBT003
    executions = (
        cells.join(sessions, "session_id", how="left")
        .withColumn("state", F.when((F.col("state") == "running") & is_over, "lost").otherwise(F.col("state")))
        .drop("is_over")
    )
    return times(executions, "started_at", "ended_at")


def derive_operations(scope: RefreshScope) -> DataFrame:
    """One row per operation of a notebook session, with its run and cell."""
    frames = {
        f"{direction}_dataframes": F.from_json(f"{direction}s", f"array<{spark_type(FRAME_TYPE)}>")
        for direction in ("input", "output")
    }
    operations = scope.rows("state_operations", SESSION, "session_id").withColumns(frames).drop("inputs", "outputs")
    cells = scope.rows("cell_executions", SESSION, "session_id").select(
        "session_id",
        "execution_id",
        "cell_index",
        F.col("state").alias("cell_state"),
        F.col("duration_ms").alias("cell_duration_ms"),
    )
    runs = scope.rows("runs", OPERATION_RUN, "run_uuid").select(
        "run_uuid", "job_namespace", "job_name", "state", "started_at", "ended_at"
    )
    joined = times(operations, "event_time").join(runs, "run_uuid", how="left")
    return joined.join(cells, ["session_id", "execution_id"], how="left")
