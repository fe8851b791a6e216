"""Lineage assertions: the lineage of one dataset as asserted by a run, or by a job or dataset without a run."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from clew.events.column_lineage import COLUMN_LINEAGE, LINEAGE_FACET, ORIGIN_SEPARATOR, RETRACTED
from clew.index.encoding import KEY_SEPARATOR
from clew.lake.facet_parsers import EDGES, EXPLICIT_ASSERTIONS, REF_MARKER, WIDE_EDGE_TEXT
from clew.pipeline.derive.facets import explode_facet

_DATASET = ["dataset_namespace", "dataset_name"]
_KEY = ["asserted_by", *_DATASET, "dataset_version", "origin"]
_CONTEXT = ["run_uuid", "job_namespace", "job_name", "session_id", "event_id", "event_time"]
_EVENT = ["seq", "precedence", "kind", *_CONTEXT, "inputs"]


def derive_event_assertions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per assertion of an event, with the event; `edge_set_id` refers to its edges."""
    texts = _texts(tables).drop("text")
    events = tables["lineage_events"].select(*_EVENT, *(F.col(name).alias(f"own_{name}") for name in _DATASET))
    joined = texts.join(events, "seq", how="inner").where(~F.col("is_subject") | (F.col("kind") == "DATASET"))
    dataset = F.concat_ws(KEY_SEPARATOR, *(f"own_{name}" for name in _DATASET), F.lit(""))
    asserter = F.when(F.col("kind") == "DATASET", dataset).otherwise(asserter_key())
    return joined.withColumn("asserted_by", asserter).drop("is_subject", "kind", *(f"own_{name}" for name in _DATASET))


def derive_lineage_assertions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per asserter, dataset and facet kind: the last assertion, which replaces earlier ones.

    `is_effective` if it is not retracted and, for column lineage, not overridden by explicit lineage.
    """
    last = F.max_by(
        F.struct("seq", "precedence", *_CONTEXT, "edge_set_id"), F.struct("precedence", "facet_rank", "position")
    ).alias("last")
    rows = tables["event_assertions"].groupBy(*_KEY).agg(last).select(*_KEY, "last.*")
    is_explicit = F.col("origin") == LINEAGE_FACET
    is_superseded = is_explicit & (F.col("precedence") < F.col("declared_precedence"))
    has_edges = F.max(F.col("edge_position").isNotNull()).alias("has_edges")
    sets = tables["asserted_edges"].groupBy("edge_set_id").agg(has_edges)
    is_not_retracted = F.col("edge_set_id") != RETRACTED
    of_dataset = Window.partitionBy("asserted_by", *_DATASET)
    return (
        rows.join(F.broadcast(static_lineage(tables)), "asserted_by", how="left")
        .where(F.col("declared_precedence").isNull() | ~is_superseded)
        .drop("precedence", "declared_precedence")
        .join(sets, "edge_set_id", how="left")
        .withColumn("edge_set_id", F.when(F.col("has_edges").isNotNull(), F.col("edge_set_id")).otherwise(RETRACTED))
        .withColumn(
            "is_effective", is_not_retracted & (is_explicit | ~F.max(is_explicit & is_not_retracted).over(of_dataset))
        )
    )


def derive_asserted_edges(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per edge of each distinct edge set; an empty set has one row with a null position.

    Edge sets of large facets have one edge per source, with a reference to the facet.
    """
    # Runs of a job mostly assert the same lineage: each text is parsed once.
    texts = _texts(tables).groupBy("edge_set_id").agg(F.any_value("text").alias("text"))
    is_wide = F.col("text").contains(REF_MARKER)
    return explode_facet(texts.withColumn(WIDE_EDGE_TEXT, F.when(is_wide, F.col("text"))), "text", EDGES)


def derive_edge_sets(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per edge of an edge set."""
    return tables["asserted_edges"].where(F.col("edge_position").isNotNull())


def static_lineage(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Precedence of the last run-less declaration of explicit lineage of each job, which is complete."""
    declared = tables["job_facets"].where((F.col("name") == LINEAGE_FACET) & F.col("run_uuid").isNull())
    return declared.groupBy(asserter_key().alias("asserted_by")).agg(F.max("precedence").alias("declared_precedence"))


def asserter_key() -> Column:
    """Key of the asserter of an event with a job, as in the index."""
    return F.coalesce("run_uuid", F.concat_ws(KEY_SEPARATOR, "job_namespace", "job_name"))


def _texts(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per assertion of an event with its text: origin and facet, or an entry of the facet."""
    facets = _facets_of_datasets(tables["dataset_facets"]).unionByName(_entries(tables["job_facets"]))
    text = F.concat("origin", F.lit(ORIGIN_SEPARATOR), "facet")
    texts = facets.withColumns({"text": text, "edge_set_id": F.coalesce("text_md5", F.md5(text))})
    return texts.drop("facet", "text_md5")


def _facets_of_datasets(dataset_facets: DataFrame) -> DataFrame:
    is_lineage = F.col("name").isin(COLUMN_LINEAGE, LINEAGE_FACET) & (F.col("type") == "DATASET")
    is_subject = F.col("direction").isNull()
    rows = dataset_facets.where(is_lineage & (is_subject | (F.col("direction") == "OUTPUT")))
    return rows.select(
        "seq",
        F.lit(0).alias("facet_rank"),
        F.col("uuid").alias("position"),
        is_subject.alias("is_subject"),
        F.col("name").alias("origin"),
        *_DATASET,
        # Explicit lineage has no version of its target; it is that of the run's output.
        F.when(F.col("name") == COLUMN_LINEAGE, F.col("dataset_version")).alias("dataset_version"),
        "facet",
        "text_md5",
    )


def _entries(job_facets: DataFrame) -> DataFrame:
    rows = explode_facet(
        job_facets.where(F.col("name") == LINEAGE_FACET).select("seq", "facet"), "facet", EXPLICIT_ASSERTIONS
    )
    return rows.select(
        "seq",
        F.lit(1).alias("facet_rank"),
        F.lpad(F.col("position").cast("string"), 9, "0").alias("position"),
        F.lit(False).alias("is_subject"),  # noqa: FBT003
        F.lit(LINEAGE_FACET).alias("origin"),
        *_DATASET,
        F.lit(None).cast("string").alias("dataset_version"),
        "facet",
        F.lit(None).cast("string").alias("text_md5"),
    )
