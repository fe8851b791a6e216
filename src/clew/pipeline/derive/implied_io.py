"""Inputs that only a lineage facet mentions."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.events.explicit_lineage import DATASET, JOB, LINEAGE_FACET
from clew.lake.facet_columns import LINEAGE_ENTRIES
from clew.pipeline.derive.opening import explode_facet

_CONTEXT = ["event_id", "seq", "event_time", "run_uuid", "job_namespace", "job_name", "session_id"]
_DATASET = ["dataset_namespace", "dataset_name"]


def derive_inferred_inputs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per event and source of its lineage facets that is not among the event's inputs."""
    # Few events declare inputs of their own job: broadcast.
    own_inputs = _events(tables).join(
        F.broadcast(_own_job_inputs(tables["explicit_lineage_entries"])), "seq", how="inner"
    )
    sources = _sources(tables).unionByName(own_inputs, allowMissingColumns=True)
    is_listed = F.exists(
        "inputs", lambda dataset: (dataset["namespace"] == F.col(_DATASET[0])) & (dataset["name"] == F.col(_DATASET[1]))
    )
    inferred = sources.where(~F.coalesce(is_listed, F.lit(False)))  # noqa: FBT003
    return inferred.select(
        *_CONTEXT,
        F.lit("INPUT").alias("direction"),
        *_DATASET,
        F.lit(None).cast("string").alias("dataset_version"),
        F.lit(True).alias("is_implied"),  # noqa: FBT003
    ).distinct()


def derive_explicit_lineage_entries(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per source of an explicit lineage entry; the event's own job by its name."""
    facets = tables["job_facets"].where(F.col("name") == LINEAGE_FACET)
    event_time = F.col("lineage_event_time").alias("event_time")
    context = ["seq", "precedence", "run_uuid", "job_namespace", "job_name"]
    entries = explode_facet(facets.select(*context, event_time, "facet"), "facet", LINEAGE_ENTRIES)
    own = {"namespace": F.col("job_namespace"), "name": F.col("job_name")}
    is_own = {prefix: (F.col(f"{prefix}type") == JOB) & F.col(f"{prefix}name").isNull() for prefix in ("", "target_")}
    return entries.withColumns(
        {
            f"{prefix}{part}": F.when(is_own[prefix], job).otherwise(F.col(f"{prefix}{part}"))
            for prefix in is_own
            for part, job in own.items()
        }
    )


def _sources(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per assertion of an event and source dataset."""
    edges = tables["asserted_edges"].where(F.col("edge_position").isNotNull())
    sources = edges.select(
        "edge_set_id",
        F.col("source_namespace").alias("dataset_namespace"),
        F.col("source_name").alias("dataset_name"),
    ).distinct()
    assertions = tables["event_assertions"].select(*_CONTEXT, "edge_set_id", "inputs")
    return assertions.join(sources, "edge_set_id", how="inner").drop("edge_set_id")


def _own_job_inputs(entries: DataFrame) -> DataFrame:
    """Return inputs that events declare for their own job."""
    is_own = (F.col("target_namespace") == F.col("job_namespace")) & (F.col("target_name") == F.col("job_name"))
    own_inputs = entries.where((F.col("target_type") == JOB) & is_own & (F.col("type") == DATASET))
    return own_inputs.select("seq", F.col("namespace").alias("dataset_namespace"), F.col("name").alias("dataset_name"))


def _events(tables: Mapping[str, DataFrame]) -> DataFrame:
    return tables["lineage_events"].select(*_CONTEXT, "inputs")
