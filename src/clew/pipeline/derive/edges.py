"""Column edges, dataset edges, job edges and job dependencies."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.events.column_lineage import COLUMN_LINEAGE, DATASET, ENTRIES_KEY, JOB, LINEAGE_FACET
from clew.index.encoding import KEY_SEPARATOR
from clew.pipeline.derive.assertions import asserter_key, static_lineage
from clew.pipeline.derive.datasets import with_canonical_names
from clew.pipeline.derive.io import job_declarations, listed_io, reported_io

_OUTPUT = ("OUTPUT", "dataset_namespace", "dataset_name")
_SOURCE_IO = ("INPUT", "source_namespace", "source_name")


def derive_column_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per edge of the effective assertions, with canonical dataset names.

    One row per source for wide column lineage: the writing task expands the others.
    """
    assertions = (
        tables["lineage_assertions"].where(F.col("is_effective")).drop("asserted_by", "is_effective", "has_edges")
    )
    # Explicit lineage has no version of its target; it is that of the run's output.
    version = F.when(F.col("origin") == COLUMN_LINEAGE, F.col("dataset_version")).otherwise(_version(*_OUTPUT))
    edges = (
        assertions.join(tables["edge_sets"], "edge_set_id", how="inner")
        .join(_versions(tables["run_io"]), "run_uuid", how="left")
        .withColumns({"dataset_version": version, "source_version": _version(*_SOURCE_IO)})
        .drop("versions")
    )
    return with_canonical_names(edges, tables["dataset_aliases"], "dataset", "source")


def _versions(run_io: DataFrame) -> DataFrame:
    """Map of the dataset versions that each run read and wrote."""
    versioned = run_io.where(F.col("dataset_version").isNotNull())
    key = F.concat_ws(KEY_SEPARATOR, "direction", "dataset_namespace", "dataset_name").alias("key")
    last = versioned.groupBy("run_uuid", key).agg(F.max("dataset_version").alias("version"))
    entries = F.collect_list(F.struct("key", "version"))
    return last.groupBy("run_uuid").agg(F.map_from_entries(entries).alias("versions"))


def _version(direction: str, namespace: str, name: str) -> Column:
    return F.col("versions")[F.concat_ws(KEY_SEPARATOR, F.lit(direction), F.col(namespace), F.col(name))]


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


_JOB_EDGE = ["job_namespace", "job_name", "direction", "dataset_namespace", "dataset_name"]
_DEPENDENCY = [*_JOB, "upstream_namespace", "upstream_name"]


def derive_job_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job, direction and canonical dataset, with the last run that reported it."""
    columns = [*_JOB_EDGE, "run_uuid", "event_time", "seq", "is_implied"]
    listed = reported_io(tables).where(F.col("job_name").isNotNull()).select(*columns)
    all_edges = listed.unionByName(_edges_from_entries(tables["explicit_lineage_entries"]).select(*columns))
    edges = _mark_superseded(all_edges, tables["lineage_events"]).groupBy(*_JOB_EDGE)
    first, is_implied = F.min("event_time").alias("first_event_at"), F.min("is_implied").alias("is_implied")
    is_current = F.max("is_current").alias("is_current")
    current = edges.agg(first, *_latest_event_columns(), is_implied, is_current).where("is_current").drop("is_current")
    return (
        with_canonical_names(current, tables["dataset_aliases"], "dataset")
        .groupBy(*_JOB_EDGE)
        .agg(
            F.max_by("last_run_uuid", "last_seq").alias("last_run_uuid"),
            *(F.min(column).alias(column) for column in ("first_event_at", "first_seq", "is_implied")),
            *(F.max(column).alias(column) for column in ("last_event_at", "last_seq")),
        )
        .select(*current.columns)
    )


def derive_job_dependencies(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job and upstream job, with the last run that reported it."""
    upstream = F.explode("upstream").alias("source")
    reported = _upstream_jobs(tables).select(*_JOB, "run_uuid", "event_time", "seq", upstream)
    sources = {"upstream_namespace": F.col("source.namespace"), "upstream_name": F.col("source.name")}
    return reported.withColumns(sources).groupBy(*_DEPENDENCY).agg(*_latest_event_columns())


def _mark_superseded(reported: DataFrame, lineage_events: DataFrame) -> DataFrame:
    """Add the column `is_current`: false if the edge was declared by a JobEvent that a later one superseded."""
    newest_first = Window.partitionBy(*_JOB).orderBy(F.desc("precedence"))
    declared = job_declarations(lineage_events).select(
        *_JOB, "seq", (F.row_number().over(newest_first) == 1).alias("is_last")
    )
    is_of_run = F.col("run_uuid").isNotNull()
    without_run = reported.where(~is_of_run).join(declared, [*_JOB, "seq"], how="left")
    # Edges without a run that are not declared by the job itself are never superseded.
    marked = without_run.withColumn("is_current", F.coalesce("is_last", F.lit(True))).drop("is_last")  # noqa: FBT003
    return reported.where(is_of_run).withColumn("is_current", F.lit(True)).unionByName(marked)  # noqa: FBT003


def _latest_event_columns() -> list[Column]:
    return [
        F.max_by("run_uuid", "seq").alias("last_run_uuid"),
        F.max("event_time").alias("last_event_at"),
        F.min("seq").alias("first_seq"),
        F.max("seq").alias("last_seq"),
    ]


def _upstream_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Upstream jobs of the last entry of each asserter for each job."""
    source = F.when(F.col("type") == JOB, F.struct("namespace", "name"))
    job_entries = (
        tables["explicit_lineage_entries"].where(F.col("target_type") == JOB).withColumn("asserted_by", asserter_key())
    )
    entries = job_entries.groupBy("asserted_by", "target_namespace", "target_name", "seq", "position").agg(
        F.sort_array(F.collect_set(source)).alias("upstream"),
        F.max("run_uuid").alias("run_uuid"),
        F.max("event_time").alias("event_time"),
        F.max("precedence").alias("precedence"),
    )
    last = F.max_by(
        F.struct("seq", "precedence", "event_time", "run_uuid", "upstream"), F.struct("precedence", "position")
    )
    return (
        entries.groupBy(
            "asserted_by", F.col("target_namespace").alias("job_namespace"), F.col("target_name").alias("job_name")
        )
        .agg(last.alias("last"))
        .select("asserted_by", *_JOB, "last.*")
        .join(static_lineage(tables), "asserted_by", how="left")
        .where(F.col("declared_precedence").isNull() | (F.col("precedence") >= F.col("declared_precedence")))
        .drop("precedence", "declared_precedence")
    )


def _edges_from_entries(entries: DataFrame) -> DataFrame:
    """Edges between jobs and datasets in explicit lineage entries."""
    event_columns = [*map(F.col, ("run_uuid", "event_time", "seq")), F.lit(True).alias("is_implied")]  # noqa: FBT003
    read = entries.where((F.col("target_type") == JOB) & (F.col("type") == DATASET)).select(
        F.col("target_namespace").alias("job_namespace"),
        F.col("target_name").alias("job_name"),
        F.lit("INPUT").alias("direction"),
        F.col("namespace").alias("dataset_namespace"),
        F.col("name").alias("dataset_name"),
        *event_columns,
    )
    written = entries.where((F.col("target_type") == DATASET) & (F.col("type") == JOB)).select(
        F.col("namespace").alias("job_namespace"),
        F.col("name").alias("job_name"),
        F.lit("OUTPUT").alias("direction"),
        F.col("target_namespace").alias("dataset_namespace"),
        F.col("target_name").alias("dataset_name"),
        *event_columns,
    )
    return read.unionByName(written)
