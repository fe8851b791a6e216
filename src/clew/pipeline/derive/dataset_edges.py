"""Lineage between datasets: by explicit lineage, else by column lineage, else from all that was read to all written."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.events.explicit_lineage import ENTRIES_KEY
from clew.events.explicit_lineage import FACET as LINEAGE
from clew.pipeline.derive.nodes import resolved
from clew.pipeline.derive.run_io import declarations, event_io, said_io
from clew.pipeline.derive.statements import run_or_job

_JOB = ["job_namespace", "job_name"]
_DATASET = ["dataset_namespace", "dataset_name"]
_SOURCE = ["source_namespace", "source_name"]
_EDGE = [*_DATASET, *_SOURCE, *_JOB, "origin"]
_SAID = ["last_run_uuid", "last_event_at", "first_seq", "last_seq"]
# What is known of an author beside what it reads and writes.
_TOLD, _EXPLICIT = "TOLD", "EXPLICIT"


def dataset_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per dataset, dataset that it comes from, job and way in which it is known, by the names of nodes."""
    edges = _stated(tables).unionByName(_assumed(tables))
    return resolved(edges, tables["nodes"], "dataset", "source").groupBy(*_EDGE).agg(*_last())


def _stated(tables: Mapping[str, DataFrame]) -> DataFrame:
    """What statements say."""
    sources = tables["edge_sets"].select("edge_set", *_SOURCE).distinct()
    said = tables["statements"].where(F.col("counts")).join(sources, "edge_set", how="inner")
    return said.select(
        *_EDGE,
        F.col("run_uuid").alias("last_run_uuid"),
        F.col("event_time").alias("last_event_at"),
        F.col("seq").alias("first_seq"),
        F.col("seq").alias("last_seq"),
    )


def _assumed(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Every output from every input, where nothing is said."""
    # A job reads and writes the same run after run: the product is made once.
    known = _by_author(tables).groupBy(*_JOB, "inputs", "outputs").agg(*_last())
    outputs = known.select(*_JOB, *_SAID, "inputs", F.explode("outputs").alias("output"))
    return outputs.select(*_JOB, *_SAID, "output", F.explode("inputs").alias("input")).select(
        F.col("output.namespace").alias("dataset_namespace"),
        F.col("output.name").alias("dataset_name"),
        F.col("input.namespace").alias("source_namespace"),
        F.col("input.name").alias("source_name"),
        *_JOB,
        F.lit("io").alias("origin"),
        *_SAID,
    )


def _by_author(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The inputs of each run, or job without one, and those of its outputs that nothing is said of."""
    is_output = F.col("direction") == "OUTPUT"
    facts = _io(tables).unionByName(_told(tables), allowMissingColumns=True)
    known = facts.groupBy("author").agg(
        F.array_except(_listed("OUTPUT"), _listed(_TOLD)).alias("outputs"),
        _listed("INPUT").alias("inputs"),
        F.max(F.col("direction") == _EXPLICIT).alias("is_explicit"),
        *(F.max(column).alias(column) for column in _JOB),
        F.max("run_uuid").alias("last_run_uuid"),
        F.max(F.when(is_output, F.col("event_time"))).alias("last_event_at"),
        F.min(F.when(is_output, F.col("seq"))).alias("first_seq"),
        F.max(F.when(is_output, F.col("seq"))).alias("last_seq"),
    )
    # Spec: where explicit lineage is given, it is all there is; what it leaves out only belongs to the job.
    return known.where(~F.col("is_explicit"))


def _io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """What each run reads and writes, and what the last JobEvent of each job declares."""
    of_runs = said_io(tables).where(F.col("run_uuid").isNotNull())
    events = declarations(tables["lineage_events"])
    context = ["event_id", "seq", "event_time", "run_uuid", "session_id", "inputs", "outputs"]
    last = events.groupBy(*_JOB).agg(F.max_by(F.struct(*context), "turn").alias("last")).select(*_JOB, "last.*")
    listed = of_runs.drop("is_implied").unionByName(event_io(last))
    return listed.select(run_or_job().alias("author"), "direction", *_DATASET, *_JOB, "run_uuid", "event_time", "seq")


def _told(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Outputs that a statement tells of (column lineage needs an edge for that), and authors of explicit lineage."""
    tells = F.col("counts") & (F.col("has_edges") | (F.col("origin") == LINEAGE))
    told = tables["statements"].where(tells).select("author", F.lit(_TOLD).alias("direction"), *_DATASET)
    explicit = _explicit_authors(tables["job_facets"]).select("author", F.lit(_EXPLICIT).alias("direction"))
    return told.unionByName(explicit, allowMissingColumns=True)


def _explicit_authors(job_facets: DataFrame) -> DataFrame:
    """Runs that gave explicit lineage in any event, and jobs whose last declaration has some."""
    has_entries = F.coalesce("says_entries", F.col("facet").contains(ENTRIES_KEY))
    of_run, declared = F.max(has_entries), F.max_by(has_entries, "turn")
    facets = job_facets.where(F.col("name") == LINEAGE).withColumn("author", run_or_job())
    found = facets.groupBy("author").agg(F.when(F.max("run_uuid").isNull(), declared).otherwise(of_run).alias("is_so"))
    return found.where(F.col("is_so"))


def _listed(direction: str) -> Column:
    dataset = F.struct(F.col("dataset_namespace").alias("namespace"), F.col("dataset_name").alias("name"))
    return F.sort_array(F.collect_set(F.when(F.col("direction") == direction, dataset)))


def _last() -> list[Column]:
    return [
        F.max_by("last_run_uuid", "last_seq").alias("last_run_uuid"),
        F.max("last_event_at").alias("last_event_at"),
        F.min("first_seq").alias("first_seq"),
        F.max("last_seq").alias("last_seq"),
    ]
