"""Column edges, dataset edges, job edges and job dependencies."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.events.column_lineage import COLUMN_LINEAGE, LINEAGE_FACET, RETRACTED
from clew.index.encoding import KEY_SEPARATOR
from clew.pipeline.derive.datasets import with_canonical_names
from clew.pipeline.derive.scope import ASSERTER, EDGE_JOB, EDGE_SET, JOB, RefreshScope, times

_JOB = ("job_namespace", "job_name")
_DATASET = ("dataset_namespace", "dataset_name")
_SOURCE = ("source_namespace", "source_name")
_JOB_EDGE = (*_JOB, "direction", *_DATASET)
_DATASET_EDGE = (*_DATASET, *_SOURCE, *_JOB, "origin")
# Rows of `dataset_edges` of one run without lineage facets, per input and output.
MAX_EDGES_PER_DATASET: Final = 16
_CONTRIBUTION = ("run_uuid", "last_event_at", "first_seq", "last_seq")


def asserter_of_job(namespace: str, name: str) -> Column:
    """Key of a job as asserter, as in the index."""
    return F.concat_ws(KEY_SEPARATOR, namespace, name)


def effective_assertions(scope: RefreshScope) -> DataFrame:
    """Return assertions that are neither retracted nor superseded nor overridden by explicit lineage."""
    assertions = _without_superseded(
        scope, scope.rows("state_lineage_assertions", ASSERTER, "asserted_by"), LINEAGE_FACET
    )
    is_explicit, is_not_retracted = F.col("origin") == LINEAGE_FACET, F.col("edge_set_id") != RETRACTED
    has_explicit = F.max(is_explicit & is_not_retracted).over(Window.partitionBy("asserted_by", *_DATASET))
    return assertions.withColumn("is_effective", is_not_retracted & (is_explicit | ~has_explicit)).where("is_effective")


def _without_superseded(scope: RefreshScope, rows: DataFrame, origin: str | None = None) -> DataFrame:
    """Remove explicit lineage that a job declared before its last declaration."""
    static = scope.all_rows("state_static_lineage").select("asserted_by", _order().alias("declared"))
    is_current = F.col("declared").isNull() | (_order() >= F.col("declared"))
    if origin is not None:
        is_current |= F.col("origin") != origin
    return rows.join(F.broadcast(static), "asserted_by", how="left").where(is_current).drop("declared")


def _order() -> Column:
    return F.struct(F.coalesce("order_time", F.lit(0)).alias("time"), F.col("seq").alias("seq"))


def derive_column_edges(scope: RefreshScope) -> DataFrame:
    """One row per edge of the effective assertions, with canonical dataset names."""
    run_io = scope.rows("state_run_io", ASSERTER, "run_uuid")
    # Explicit lineage has no version of its target; it is that of the run's output.
    version = F.when(F.col("origin") == COLUMN_LINEAGE, F.nullif("dataset_version", F.lit(""))).otherwise(
        F.col("output_version")
    )
    edges = (
        effective_assertions(scope)
        .drop("is_effective", "order_time")
        .join(scope.rows("state_edge_sets", EDGE_SET, "edge_set_id"), "edge_set_id", how="inner")
        .join(_versions(run_io, "OUTPUT", _DATASET, "output_version"), ["run_uuid", *_DATASET], how="left")
        .join(_versions(run_io, "INPUT", _SOURCE, "source_version"), ["run_uuid", *_SOURCE], how="left")
        .withColumn("dataset_version", version)
        .drop("output_version")
    )
    return times(with_canonical_names(edges, scope.aliases, "dataset", "source"), "event_time")


def _versions(run_io: DataFrame, direction: str, names: tuple[str, str], version: str) -> DataFrame:
    """Return the versions of the datasets that each run read or wrote."""
    # Rows, not one map per run, which would be copied to each edge of the run.
    versioned = run_io.where((F.col("direction") == direction) & (F.col("dataset_version") != ""))
    last = versioned.groupBy("run_uuid", *_DATASET).agg(F.max("dataset_version"))
    return last.toDF("run_uuid", *names, version)


def derive_asserted_dataset_edges(scope: RefreshScope) -> DataFrame:
    """One row per asserter, dataset and source: from assertions, or from each input to each uncovered output."""
    assertions = effective_assertions(scope)
    sources = scope.rows("state_edge_sets", EDGE_SET, "edge_set_id").select("edge_set_id", *_SOURCE).distinct()
    edges = assertions.join(sources, "edge_set_id", how="inner").select(
        "asserted_by",
        *_DATASET_EDGE,
        "run_uuid",
        F.col("event_time").alias("last_event_at"),
        F.col("seq").alias("first_seq"),
        F.col("seq").alias("last_seq"),
    )
    return edges.unionByName(_io_edges(scope, assertions, sources))


def _io_edges(scope: RefreshScope, assertions: DataFrame, sources: DataFrame) -> DataFrame:
    """Build edges from every input to every output that no assertion covers.

    If these are many more than the inputs and outputs, each output has one edge with a null source: its sources are the
    inputs of the job. So the number of edges is linear in the size of an event.
    """
    # Column lineage covers an output only if it has edges.
    with_edges = assertions.join(sources.select("edge_set_id").distinct(), "edge_set_id", how="left_semi")
    covered = (
        assertions.where(F.col("origin") == LINEAGE_FACET).unionByName(with_edges).select("asserted_by", *_DATASET)
    )
    io = _reported_io(scope).join(_explicit_asserters(scope), "asserted_by", how="left_anti")
    outputs = io.where(F.col("direction") == "OUTPUT")
    asserters = outputs.groupBy("asserted_by").agg(
        F.max("run_uuid").alias("run_uuid"),
        F.max("last_event_at").alias("last_event_at"),
        F.min("first_seq").alias("first_seq"),
        F.max("last_seq").alias("last_seq"),
    )
    jobs = io.groupBy("asserted_by").agg(*(F.max(column).alias(column) for column in _JOB))
    inputs = io.where(F.col("direction") == "INPUT").select("asserted_by", *_DATASET).distinct()
    uncovered = (
        outputs.select("asserted_by", *_DATASET).distinct().join(covered, ["asserted_by", *_DATASET], how="left_anti")
    )
    return (
        uncovered.join(_io_sources(inputs, uncovered), "asserted_by", how="inner")
        .join(asserters, "asserted_by", how="inner")
        .join(jobs, "asserted_by", how="inner")
        .withColumn("origin", F.lit("io"))
        .select("asserted_by", *_DATASET_EDGE, *_CONTRIBUTION)
    )


def _io_sources(inputs: DataFrame, outputs: DataFrame) -> DataFrame:
    """Return the sources of each output of an asserter: its inputs, or null if the edges would be too many."""
    read, written = (
        rows.groupBy("asserted_by").agg(F.count("*").alias(name))
        for rows, name in ((inputs, "read"), (outputs, "written"))
    )
    is_wide = F.col("read") * F.col("written") > MAX_EDGES_PER_DATASET * (F.col("read") + F.col("written"))
    wide = read.join(written, "asserted_by", how="inner").where(is_wide)
    narrow = inputs.toDF("asserted_by", *_SOURCE).join(wide, "asserted_by", how="left_anti")
    nothing = F.lit(None).cast("string")
    return narrow.unionByName(wide.select("asserted_by", *(nothing.alias(column) for column in _SOURCE)))


def _reported_io(scope: RefreshScope) -> DataFrame:
    """Return inputs and outputs of runs, and those that the last JobEvent of each job lists."""
    columns = ["asserted_by", "direction", *_DATASET, *_JOB, *_CONTRIBUTION]
    of_runs = scope.rows("state_run_io", ASSERTER, "run_uuid").withColumn("asserted_by", F.col("run_uuid"))
    declared = (
        _last_declarations(scope)
        .where("is_listed")
        .select(
            asserter_of_job(*_JOB).alias("asserted_by"),
            "direction",
            *_DATASET,
            *_JOB,
            F.lit(None).cast("string").alias("run_uuid"),
            F.col("declared_at").alias("last_event_at"),
            F.col("declared_seq").alias("first_seq"),
            F.col("declared_seq").alias("last_seq"),
        )
    )
    return of_runs.select(*columns).unionByName(declared.select(*columns))


def _last_declarations(scope: RefreshScope) -> DataFrame:
    """Edges that the last JobEvent of each job declares."""
    edges = scope.rows("state_reported_job_edges", JOB, *_JOB).where(F.col("declared_seq").isNotNull())
    order = F.struct(F.coalesce("declared_order_time", F.lit(0)), "declared_seq")
    return (
        edges.withColumn("_last", F.max(order).over(Window.partitionBy(*_JOB)))
        .where(order == F.col("_last"))
        .drop("_last")
    )


def _explicit_asserters(scope: RefreshScope) -> DataFrame:
    """Return runs with explicit lineage in any event, and jobs with explicit lineage in their last declaration.

    Explicit lineage is complete: datasets that it omits only belong to the job.
    """
    runs = scope.rows("state_runs", ASSERTER, "run_uuid").where("has_lineage_entries")
    jobs = scope.all_rows("state_static_lineage").where("has_entries")
    return runs.select(F.col("run_uuid").alias("asserted_by")).unionByName(jobs.select("asserted_by"))


def derive_dataset_edges(scope: RefreshScope, asserted: DataFrame) -> DataFrame:
    """One row per dataset, source dataset, job and origin, with canonical names.

    `asserted` are the edges of touched asserters.
    """
    if scope.units is not None:
        others = scope.rows_of_others("state_dataset_edges", EDGE_JOB, _JOB, ASSERTER, ("asserted_by",))
        asserted = asserted.unionByName(others)
    edges = with_canonical_names(asserted, scope.aliases, "dataset", "source")
    merged = edges.groupBy(*_DATASET_EDGE).agg(
        F.max_by("run_uuid", "last_seq").alias("last_run_uuid"),
        F.max("last_event_at").alias("last_event_at"),
        F.min("first_seq").alias("first_seq"),
        F.max("last_seq").alias("last_seq"),
    )
    return times(merged, "last_event_at")


def derive_job_edges(scope: RefreshScope) -> DataFrame:
    """One row per job, direction and canonical dataset, with the last run that reported it."""
    edges = scope.rows("state_reported_job_edges", JOB, *_JOB)
    # An edge that only JobEvents declare is superseded when the job declares others.
    order = F.when(
        F.col("declared_seq").isNotNull(), F.struct(F.coalesce("declared_order_time", F.lit(0)), "declared_seq")
    )
    is_current = F.col("is_observed") | (order == F.max(order).over(Window.partitionBy(*_JOB)))
    current = edges.withColumn("_is_current", is_current).where("_is_current")
    merged = (
        with_canonical_names(current, scope.aliases, "dataset")
        .groupBy(*_JOB_EDGE)
        .agg(
            F.max_by("last_run_uuid", "last_seq").alias("last_run_uuid"),
            *(F.min(column).alias(column) for column in ("first_event_at", "first_seq", "is_implied")),
            *(F.max(column).alias(column) for column in ("last_event_at", "last_seq")),
        )
    )
    return times(merged, "first_event_at", "last_event_at")


def derive_job_dependencies(scope: RefreshScope) -> DataFrame:
    """One row per job and upstream job, with the last run that reported it."""
    assertions = _without_superseded(scope, scope.rows("state_job_dependency_assertions", JOB, *_JOB))
    upstream = F.explode(F.from_json("upstream", "array<array<string>>")).alias("source")
    sources = assertions.select(*_JOB, "run_uuid", "event_time", "seq", upstream).withColumns(
        {"upstream_namespace": F.col("source")[0], "upstream_name": F.col("source")[1]}
    )
    merged = sources.groupBy(*_JOB, "upstream_namespace", "upstream_name").agg(
        F.max_by("run_uuid", "seq").alias("last_run_uuid"),
        F.max("event_time").alias("last_event_at"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
    )
    return times(merged, "last_event_at")
