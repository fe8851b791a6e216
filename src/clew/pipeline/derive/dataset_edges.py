"""Dataset lineage: from explicit lineage, else from column lineage, else from every input to every output."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.events.explicit_lineage import ENTRIES_KEY, LINEAGE_FACET
from clew.pipeline.derive.nodes import with_canonical_names
from clew.pipeline.derive.run_io import job_declarations, listed_io, reported_io
from clew.pipeline.derive.statements import asserter_key

_JOB = ["job_namespace", "job_name"]
_DATASET = ["dataset_namespace", "dataset_name"]
_SOURCE = ["source_namespace", "source_name"]
_DATASET_EDGE = [*_DATASET, *_SOURCE, *_JOB, "origin"]
_PROVENANCE_COLUMNS = ["last_run_uuid", "last_event_at", "first_seq", "last_seq"]
# Markers in the column `direction` beside INPUT and OUTPUT.
_COVERED, _EXPLICIT = "COVERED", "EXPLICIT"


def derive_dataset_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset, source dataset, job and origin, with canonical names."""
    edges = _edges_from_facets(tables).unionByName(_edges_from_io(tables))
    return (
        with_canonical_names(edges, tables["dataset_aliases"], "dataset", "source")
        .groupBy(*_DATASET_EDGE)
        .agg(*_latest_columns())
    )


def _edges_from_facets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Build the edges of effective assertions."""
    sources = tables["edge_sets"].select("edge_set_id", *_SOURCE).distinct()
    effective = tables["lineage_assertions"].where(F.col("is_effective")).join(sources, "edge_set_id", how="inner")
    return effective.select(
        *_DATASET_EDGE,
        F.col("run_uuid").alias("last_run_uuid"),
        F.col("event_time").alias("last_event_at"),
        F.col("seq").alias("first_seq"),
        F.col("seq").alias("last_seq"),
    )


def _edges_from_io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Build edges from every input to every output that no assertion covers."""
    # Runs of a job mostly have equal inputs and outputs: the product is computed once.
    grouped = _io_by_asserter(tables).groupBy(*_JOB, "inputs", "outputs").agg(*_latest_columns())
    outputs = grouped.select(*_JOB, *_PROVENANCE_COLUMNS, "inputs", F.explode("outputs").alias("output"))
    return outputs.select(*_JOB, *_PROVENANCE_COLUMNS, "output", F.explode("inputs").alias("input")).select(
        F.col("output.namespace").alias("dataset_namespace"),
        F.col("output.name").alias("dataset_name"),
        F.col("input.namespace").alias("source_namespace"),
        F.col("input.name").alias("source_name"),
        *_JOB,
        F.lit("io").alias("origin"),
        *_PROVENANCE_COLUMNS,
    )


def _io_by_asserter(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per asserter with its inputs and its outputs that no assertion covers."""
    is_output = F.col("direction") == "OUTPUT"
    rows = _io(tables).unionByName(_coverage(tables), allowMissingColumns=True)
    grouped = rows.groupBy("asserted_by").agg(
        F.array_except(_dataset_set("OUTPUT"), _dataset_set(_COVERED)).alias("outputs"),
        _dataset_set("INPUT").alias("inputs"),
        F.max(F.col("direction") == _EXPLICIT).alias("is_explicit"),
        *(F.max(column).alias(column) for column in _JOB),
        F.max("run_uuid").alias("last_run_uuid"),
        F.max(F.when(is_output, F.col("event_time"))).alias("last_event_at"),
        F.min(F.when(is_output, F.col("seq"))).alias("first_seq"),
        F.max(F.when(is_output, F.col("seq"))).alias("last_seq"),
    )
    # Spec: explicit lineage is complete; datasets that it omits only belong to the job.
    return grouped.where(~F.col("is_explicit"))


def _io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return inputs and outputs of runs, and of the last JobEvent of each job."""
    of_runs = reported_io(tables).where(F.col("run_uuid").isNotNull())
    events = job_declarations(tables["lineage_events"])
    context = ["event_id", "seq", "event_time", "run_uuid", "session_id", "inputs", "outputs"]
    last = events.groupBy(*_JOB).agg(F.max_by(F.struct(*context), "precedence").alias("last")).select(*_JOB, "last.*")
    all_io = of_runs.drop("is_implied").unionByName(listed_io(last))
    return all_io.select(
        asserter_key().alias("asserted_by"), "direction", *_DATASET, *_JOB, "run_uuid", "event_time", "seq"
    )


def _coverage(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return outputs covered by an assertion (column lineage only with edges), and asserters of explicit lineage."""
    covers = F.col("is_effective") & (F.col("has_edges") | (F.col("origin") == LINEAGE_FACET))
    covered = (
        tables["lineage_assertions"].where(covers).select("asserted_by", F.lit(_COVERED).alias("direction"), *_DATASET)
    )
    explicit = _explicit_asserters(tables["job_facets"]).select("asserted_by", F.lit(_EXPLICIT).alias("direction"))
    return covered.unionByName(explicit, allowMissingColumns=True)


def _explicit_asserters(job_facets: DataFrame) -> DataFrame:
    """Return runs with explicit lineage in any event, and jobs with explicit lineage in their last declaration."""
    has_entries = F.coalesce("has_entries", F.col("facet").contains(ENTRIES_KEY))
    of_run, declared = F.max(has_entries), F.max_by(has_entries, "precedence")
    facets = job_facets.where(F.col("name") == LINEAGE_FACET).withColumn("asserted_by", asserter_key())
    asserters = facets.groupBy("asserted_by").agg(
        F.when(F.max("run_uuid").isNull(), declared).otherwise(of_run).alias("is_explicit_asserter")
    )
    return asserters.where(F.col("is_explicit_asserter"))


def _dataset_set(direction: str) -> Column:
    dataset = F.struct(F.col("dataset_namespace").alias("namespace"), F.col("dataset_name").alias("name"))
    return F.sort_array(F.collect_set(F.when(F.col("direction") == direction, dataset)))


def _latest_columns() -> list[Column]:
    return [
        F.max_by("last_run_uuid", "last_seq").alias("last_run_uuid"),
        F.max("last_event_at").alias("last_event_at"),
        F.min("first_seq").alias("first_seq"),
        F.max("last_seq").alias("last_seq"),
    ]
