"""Inputs and outputs of runs, and inputs inferred from lineage facets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.events.column_lineage import DATASET, JOB, LINEAGE_FACET
from clew.lake.facet_parsers import LINEAGE_ENTRIES
from clew.pipeline.derive.facets import explode_facet, io_schema_and_row_count

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


_KEY = ["run_uuid", "direction", "dataset_namespace", "dataset_name", "dataset_version"]
_CONTENT = ["schema_id", "schema_seq", "row_count", "row_count_seq"]


def derive_run_io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run, direction, dataset and version: the union over all events of the run."""
    of_runs = reported_io(tables).where(F.col("run_uuid").isNotNull())
    io = of_runs.groupBy(*_KEY).agg(
        *(_last(column).alias(column) for column in ("job_namespace", "job_name", "session_id")),
        _last("seq").alias("last_seq"),
        F.min("is_implied").alias("is_implied"),
    )
    contents = io_schema_and_row_count(tables["dataset_facets"])
    same = reduce(and_, (io[column].eqNullSafe(contents[column]) for column in _KEY))
    return io.join(contents, same, how="left").select(io["*"], *(contents[column] for column in _CONTENT))


def reported_io(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per event and its inputs and outputs, listed or inferred from lineage."""
    listed = listed_io(tables["lineage_events"]).withColumn("is_implied", F.lit(False))  # noqa: FBT003
    return listed.unionByName(tables["inferred_inputs"])


def _last(column: str) -> Column:
    """Maximum of the listed rows; of the inferred rows if none is listed."""
    listed = F.max(F.when(~F.col("is_implied"), F.col(column)))
    return F.when(F.min("is_implied"), F.max(column)).otherwise(listed)


def listed_io(lineage_events: DataFrame) -> DataFrame:
    """One row per event and its listed inputs and outputs."""
    return _direction(lineage_events, "INPUT", "inputs").unionByName(_direction(lineage_events, "OUTPUT", "outputs"))


def job_declarations(lineage_events: DataFrame) -> DataFrame:
    """JobEvents that list datasets: each declares all inputs and outputs of its job."""
    has_datasets = (F.size("inputs") > 0) | (F.size("outputs") > 0)
    return lineage_events.where((F.col("kind") == "JOB") & has_datasets)


def _direction(lineage_events: DataFrame, direction: str, column: str) -> DataFrame:
    context = ["event_id", "seq", "event_time", "run_uuid", "job_namespace", "job_name", "session_id"]
    return lineage_events.select(*context, F.explode(column).alias("dataset")).select(
        *context,
        F.lit(direction).alias("direction"),
        F.col("dataset.namespace").alias("dataset_namespace"),
        F.col("dataset.name").alias("dataset_name"),
        F.col("dataset.version").alias("dataset_version"),
    )
