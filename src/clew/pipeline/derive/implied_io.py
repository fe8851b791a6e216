"""What lineage says to be read or written and no event lists: inputs of runs, and of jobs that others speak of."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from clew.events.explicit_lineage import DATASET, FACET, JOB
from clew.lake.facet_columns import LINKS
from clew.pipeline.derive.opening import listed

_CONTEXT = ["event_id", "seq", "event_time", "run_uuid", "job_namespace", "job_name", "session_id"]
_DATASET = ["dataset_namespace", "dataset_name"]


def implied_io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per event and dataset that its lineage comes from, if that is not among the event's inputs."""
    # Few say of their own job what it reads: sent to the events rather than the events to them.
    consumed = _events(tables).join(F.broadcast(_consumed(tables["entries"])), "seq", how="inner")
    sources = _sources(tables).unionByName(consumed, allowMissingColumns=True)
    is_stated = F.exists(
        "inputs", lambda one: (one["namespace"] == F.col(_DATASET[0])) & (one["name"] == F.col(_DATASET[1]))
    )
    implied = sources.where(~F.coalesce(is_stated, F.lit(False)))  # noqa: FBT003
    return implied.select(
        *_CONTEXT,
        F.lit("INPUT").alias("direction"),
        *_DATASET,
        F.lit(None).cast("string").alias("dataset_version"),
        F.lit(True).alias("is_implied"),  # noqa: FBT003
    ).distinct()


def entries(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per source of an entry of explicit lineage, the event's own job by its name."""
    facets = tables["job_facets"].where(F.col("name") == FACET)
    moment = F.col("lineage_event_time").alias("event_time")
    context = ["seq", "turn", "run_uuid", "job_namespace", "job_name"]
    found = listed(facets.select(*context, moment, "facet"), "facet", LINKS)
    own = {"namespace": F.col("job_namespace"), "name": F.col("job_name")}
    is_own = {prefix: (F.col(f"{prefix}type") == JOB) & F.col(f"{prefix}name").isNull() for prefix in ("", "target_")}
    return found.withColumns(
        {
            f"{prefix}{part}": F.when(is_own[prefix], job).otherwise(F.col(f"{prefix}{part}"))
            for prefix in is_own
            for part, job in own.items()
        }
    )


def _sources(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per statement of an event and dataset that it comes from."""
    edges = tables["stated_edges"].where(F.col("ordinal").isNotNull())
    sources = edges.select(
        "edge_set",
        F.col("source_namespace").alias("dataset_namespace"),
        F.col("source_name").alias("dataset_name"),
    ).distinct()
    said = tables["said_statements"].select(*_CONTEXT, "edge_set", "inputs")
    return said.join(sources, "edge_set", how="inner").drop("edge_set")


def _consumed(entries: DataFrame) -> DataFrame:
    """What events say that their own job reads."""
    is_own = (F.col("target_namespace") == F.col("job_namespace")) & (F.col("target_name") == F.col("job_name"))
    consumed = entries.where((F.col("target_type") == JOB) & is_own & (F.col("type") == DATASET))
    return consumed.select("seq", F.col("namespace").alias("dataset_namespace"), F.col("name").alias("dataset_name"))


def _events(tables: Mapping[str, DataFrame]) -> DataFrame:
    return tables["lineage_events"].select(*_CONTEXT, "inputs")
