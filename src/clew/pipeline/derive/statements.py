"""Statements of lineage: what a run, or a job or a dataset without one, says of one dataset."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.events.explicit_lineage import FACET as LINEAGE
from clew.events.statements import BETWEEN, COLUMN_LINEAGE, TAKEN_BACK
from clew.index.keys import BETWEEN_PARTS
from clew.lake.facet_columns import EDGES, EXPLICIT_STATEMENTS
from clew.lake.facet_places import BEFORE_PLACE
from clew.lake.wide_edges import WIDE
from clew.pipeline.derive.opening import listed

_DATASET = ["dataset_namespace", "dataset_name"]
_KEY = ["author", *_DATASET, "dataset_version", "origin"]
_CONTEXT = ["run_uuid", "job_namespace", "job_name", "session_id", "event_id", "event_time"]
_EVENT = ["seq", "turn", "kind", *_CONTEXT, "inputs"]


def said_statements(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per statement of an event, with the event; its edges are named by `edge_set`."""
    said = _texts(tables).drop("text")
    events = tables["lineage_events"].select(*_EVENT, *(F.col(name).alias(f"own_{name}") for name in _DATASET))
    known = said.join(events, "seq", how="inner").where(~F.col("is_subject") | (F.col("kind") == "DATASET"))
    dataset = F.concat_ws(BETWEEN_PARTS, *(f"own_{name}" for name in _DATASET), F.lit(""))
    author = F.when(F.col("kind") == "DATASET", dataset).otherwise(run_or_job())
    return known.withColumn("author", author).drop("is_subject", "kind", *(f"own_{name}" for name in _DATASET))


def statements(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The last statement of each author on each dataset, from either facet; later ones replace it whole.

    Those that were not taken back count, and explicit lineage counts before column lineage.
    """
    last = F.max_by(F.struct("seq", "turn", *_CONTEXT, "edge_set"), F.struct("turn", "form", "place")).alias("last")
    found = tables["said_statements"].groupBy(*_KEY).agg(last).select(*_KEY, "last.*")
    is_explicit = F.col("origin") == LINEAGE
    is_over = is_explicit & (F.col("turn") < F.col("declared_turn"))
    has_edges = F.max(F.col("ordinal").isNotNull()).alias("has_edges")
    opened_sets = tables["stated_edges"].groupBy("edge_set").agg(has_edges)
    is_sound = F.col("edge_set") != TAKEN_BACK
    of_dataset = Window.partitionBy("author", *_DATASET)
    return (
        found.join(F.broadcast(lineage_declarations(tables)), "author", how="left")
        .where(F.col("declared_turn").isNull() | ~is_over)
        .drop("turn", "declared_turn")
        .join(opened_sets, "edge_set", how="left")
        .withColumn("edge_set", F.when(F.col("has_edges").isNotNull(), F.col("edge_set")).otherwise(TAKEN_BACK))
        .withColumn("counts", is_sound & (is_explicit | ~F.max(is_explicit & is_sound).over(of_dataset)))
    )


def stated_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The edges of all statements, each set once; a set without edges has a row without an ordinal.

    Of a wide set, whose text is a large facet, there is one edge from each source: the first, with the text's name.
    """
    # A job says the same of its output run after run: each text is opened once.
    texts = _texts(tables).groupBy("edge_set").agg(F.any_value("text").alias("text"))
    is_wide = F.col("text").contains(BEFORE_PLACE)
    return listed(texts.withColumn(WIDE, F.when(is_wide, F.col("text"))), "text", EDGES)


def edge_sets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per edge of a set."""
    return tables["stated_edges"].where(F.col("ordinal").isNotNull())


def lineage_declarations(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The last event without a run in which a job declares its explicit lineage: all of it, at once."""
    declared = tables["job_facets"].where((F.col("name") == LINEAGE) & F.col("run_uuid").isNull())
    return declared.groupBy(run_or_job().alias("author")).agg(F.max("turn").alias("declared_turn"))


def run_or_job() -> Column:
    """Who makes the statements of an event that has a job, as the index calls it."""
    return F.coalesce("run_uuid", F.concat_ws(BETWEEN_PARTS, "job_namespace", "job_name"))


def _texts(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per statement of an event, with its text: its origin and its facet, or an entry of it."""
    facets = _facets_of_datasets(tables["dataset_facets"]).unionByName(_entries(tables["job_facets"]))
    text = F.concat("origin", F.lit(BETWEEN), "facet")
    said = facets.withColumns({"text": text, "edge_set": F.coalesce("text_md5", F.md5(text))})
    return said.drop("facet", "text_md5")


def _facets_of_datasets(dataset_facets: DataFrame) -> DataFrame:
    is_lineage = F.col("name").isin(COLUMN_LINEAGE, LINEAGE) & (F.col("type") == "DATASET")
    is_subject = F.col("direction").isNull()
    found = dataset_facets.where(is_lineage & (is_subject | (F.col("direction") == "OUTPUT")))
    return found.select(
        "seq",
        F.lit(0).alias("form"),
        F.col("uuid").alias("place"),
        is_subject.alias("is_subject"),
        F.col("name").alias("origin"),
        *_DATASET,
        # Explicit lineage does not name the version of its target: the run's output does.
        F.when(F.col("name") == COLUMN_LINEAGE, F.col("dataset_version")).alias("dataset_version"),
        "facet",
        "text_md5",
    )


def _entries(job_facets: DataFrame) -> DataFrame:
    found = listed(job_facets.where(F.col("name") == LINEAGE).select("seq", "facet"), "facet", EXPLICIT_STATEMENTS)
    return found.select(
        "seq",
        F.lit(1).alias("form"),
        F.lpad(F.col("place").cast("string"), 9, "0").alias("place"),
        F.lit(False).alias("is_subject"),  # noqa: FBT003
        F.lit(LINEAGE).alias("origin"),
        *_DATASET,
        F.lit(None).cast("string").alias("dataset_version"),
        "facet",
        F.lit(None).cast("string").alias("text_md5"),
    )
