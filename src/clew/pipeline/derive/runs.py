"""Runs with a state that does not depend on the order of arrival of events."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.events.states import DEFAULT_STATE, RUN_STATES, STATE_RANKS, TERMINAL_RANK
from clew.lake.facet_columns import ERROR, NOMINAL_TIME, PARENT, SOURCE_CODE_LOCATION
from clew.pipeline.derive.mentions import placeholder_runs
from clew.pipeline.derive.opening import parse_facets
from clew.pipeline.derive.version_names import job_version_hash

_RUN_PARSERS = {
    "parent": PARENT,
    "nominalTime": NOMINAL_TIME,
    "errorMessage": ERROR,
    "sourceCodeLocation": SOURCE_CODE_LOCATION,
}
_RUN_SEQS = {
    "parent": "parent_seq",
    "nominalTime": "nominal_seq",
    "errorMessage": "error_seq",
    "sourceCodeLocation": "source_code_location_seq",
}


def derive_runs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run with its parent and job version, including runs that are only referenced as parent or root."""
    is_ended = (F.col("state_rank") == TERMINAL_RANK) & F.col("job_name").isNotNull()
    runs = (
        _states(tables["lineage_events"])
        .join(_parsed_run_facets(tables["run_facets"], tables["job_facets"]), "run_uuid", how="left")
        .join(inputs_and_outputs_by(tables["run_io"], "run_uuid"), "run_uuid", how="left")
        .withColumn("job_version", F.when(is_ended, job_version_hash()))
        .drop("inputs", "outputs")
    )
    return runs.unionByName(placeholder_runs(tables), allowMissingColumns=True)


def inputs_and_outputs_by(io: DataFrame, key: str) -> DataFrame:
    """One row per `key` with its distinct inputs and outputs, sorted."""
    dataset = F.struct(F.col("dataset_namespace").alias("namespace"), F.col("dataset_name").alias("name"))
    return io.groupBy(key).agg(
        *(
            F.sort_array(F.collect_set(F.when(F.col("direction") == direction, dataset))).alias(column)
            for direction, column in (("INPUT", "inputs"), ("OUTPUT", "outputs"))
        )
    )


def _states(lineage_events: DataFrame) -> DataFrame:
    of_runs = lineage_events.where(F.col("run_uuid").isNotNull()).withColumn("rank", _rank(F.col("event_type")))
    job_seq = F.when(F.col("job_name").isNotNull(), F.col("seq"))
    states = of_runs.groupBy("run_uuid").agg(
        F.min_by(F.struct("job_namespace", "job_name"), job_seq).alias("job"),
        F.min(job_seq).alias("job_seq"),
        # Terminal states are final: rank first, then the later event.
        F.max(F.struct("rank", "event_time", "seq", "event_type")).alias("last"),
        F.min(F.when(F.upper("event_type") == "START", F.col("event_time"))).alias("started_at"),
        F.min("event_time").alias("first_event_at"),
        F.max("event_time").alias("last_event_at"),
        F.max("session_id").alias("session_id"),
        F.max("execution_id").alias("execution_id"),
        F.max("seq").alias("last_seq"),
    )
    return states.select(
        "run_uuid",
        F.lit(False).alias("is_placeholder"),  # noqa: FBT003
        "job.job_namespace",
        "job.job_name",
        "job_seq",
        F.coalesce(_lookup(RUN_STATES, F.upper("last.event_type")), F.lit(DEFAULT_STATE)).alias("state"),
        F.col("last.rank").alias("state_rank"),
        F.col("last.event_time").alias("state_at"),
        F.col("last.seq").alias("state_seq"),
        "started_at",
        F.when(F.col("last.rank") == TERMINAL_RANK, F.col("last.event_time")).alias("ended_at"),
        "first_event_at",
        "last_event_at",
        "session_id",
        "execution_id",
        "last_seq",
    )


def _parsed_run_facets(run_facets: DataFrame, job_facets: DataFrame) -> DataFrame:
    """Parse the last facet of each name of a run, and the source code location in the job facets of its events."""
    columns = ["run_uuid", "name", "facet", "seq", "precedence"]
    facets = run_facets.select(*columns).unionByName(job_facets.select(*columns).where("name = 'sourceCodeLocation'"))
    last = facets.where(F.col("run_uuid").isNotNull() & F.col("name").isin(*_RUN_PARSERS)).groupBy("run_uuid")
    order = {name: F.when(F.col("name") == name, F.col("precedence")) for name in _RUN_PARSERS}
    return parse_facets(
        last.agg(
            *(F.max_by("facet", key).alias(name) for name, key in order.items()),
            *(F.max_by("seq", key).alias(_RUN_SEQS[name]) for name, key in order.items()),
        ),
        _RUN_PARSERS,
    )


def _rank(event_type: Column) -> Column:
    return F.coalesce(_lookup(STATE_RANKS, F.upper(event_type)), F.lit(0))


def _lookup(values: Mapping[str, object], key: Column) -> Column:
    return F.create_map(*(F.lit(item) for item in chain.from_iterable(values.items())))[key]
