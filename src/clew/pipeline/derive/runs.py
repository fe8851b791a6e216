"""Runs, jobs, job versions and parent references."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from clew.events.ids import ITEM_SEPARATOR, NAME_SEPARATOR, PART_SEPARATOR
from clew.events.openlineage import DEFAULT_STATE, RUN_STATES, STATE_RANKS, TERMINAL_RANK
from clew.lake.facet_parsers import (
    DESCRIPTION,
    ERROR,
    JOB_TYPE,
    NOMINAL_TIME,
    PARENT,
    PARENT_REFERENCES,
    SOURCE_CODE_LOCATION,
)
from clew.pipeline.derive.facets import explode_facet, parse_facets
from clew.pipeline.derive.io import reported_io

_GROUPS = r"^(.{8})(.{4})(.{4})(.{4})(.{12})$"


def job_version_hash() -> Column:
    """Hash the columns `job_namespace`, `job_name`, `inputs`, `outputs` and `source_code_location`."""
    parts = ("job_namespace", "job_name"), ("inputs", "outputs"), ("source_code_location",)
    names, lists, location = ([F.col(column) for column in columns] for columns in parts)
    text = F.concat_ws(
        PART_SEPARATOR, *names, *map(_join_names, lists), *(F.coalesce(value, F.lit("")) for value in location)
    )
    return F.regexp_replace(F.md5(F.encode(text, "UTF-8")), _GROUPS, "$1-$2-$3-$4-$5")


def _join_names(datasets: Column) -> Column:
    names = F.transform(datasets, lambda value: F.concat(value["namespace"], F.lit(NAME_SEPARATOR), value["name"]))
    return F.coalesce(F.array_join(F.sort_array(names), ITEM_SEPARATOR), F.lit(""))


def derive_referenced_runs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per referenced run with its first referenced job."""
    has_job = F.col("job_name").isNotNull()
    references = tables["parent_references"].groupBy("run_uuid")
    job = F.min_by(F.struct("job_namespace", "job_name"), F.when(has_job, F.struct("first_seq", "position")))
    return references.agg(
        job.alias("job"),
        F.min(F.when(has_job, F.col("first_seq"))).alias("job_seq"),
        F.max("last_seq").alias("last_seq"),
    ).select("run_uuid", "job.job_namespace", "job.job_name", "job_seq", "last_seq")


def derive_referenced_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job of a referenced run."""
    references = tables["parent_references"].where(F.col("job_name").isNotNull())
    return references.groupBy(F.col("job_namespace").alias("namespace"), F.col("job_name").alias("name")).agg(
        F.min("first_seq").alias("first_seq"), F.max("last_seq").alias("last_seq")
    )


def placeholder_runs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Build rows of runs that are referenced but have no events."""
    without_events = tables["referenced_runs"].join(
        tables["lineage_events"].select("run_uuid"), "run_uuid", how="left_anti"
    )
    return without_events.select(
        "*",
        F.lit(True).alias("is_placeholder"),  # noqa: FBT003
        F.lit(DEFAULT_STATE).alias("state"),
        F.lit(0).alias("state_rank"),
    )


def placeholder_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Build rows of jobs that are referenced but have no events."""
    key = [F.col(f"job_{part}").alias(part) for part in ("namespace", "name")]
    without_events = tables["referenced_jobs"].join(
        tables["lineage_events"].select(*key), ["namespace", "name"], how="left_anti"
    )
    return without_events.select("*", F.lit(True).alias("is_placeholder"))  # noqa: FBT003


def derive_parent_references(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per run in a parent facet, with the first and last event that contains the facet."""
    # Many runs have the same parent: each facet is parsed once.
    bodies = (
        tables["run_facets"]
        .where((F.col("name") == "parent") & F.col("run_uuid").isNotNull())
        .groupBy("facet")
        .agg(F.min("seq").alias("first_seq"), F.max("seq").alias("last_seq"))
    )
    return explode_facet(bodies, "facet", PARENT_REFERENCES)


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


_JOB_KEY = ["job_namespace", "job_name"]
_JOB_PARSERS = {"jobType": JOB_TYPE, "documentation": DESCRIPTION}
_JOB_SEQS = {"jobType": "type_seq", "documentation": "description_seq"}


def derive_jobs(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job, including jobs that are only referenced as parent or root."""
    observed = _aggregate_events(tables["lineage_events"]).join(
        _parsed_job_facets(tables["job_facets"]), _JOB_KEY, how="left"
    )
    current = (
        tables["observed_job_versions"]
        .groupBy(*_JOB_KEY)
        .agg(F.max_by("version", F.struct("at", "seq")).alias("version"))
    )
    jobs = observed.join(current, _JOB_KEY, how="left").withColumnsRenamed(
        {"job_namespace": "namespace", "job_name": "name", "version": "current_version"}
    )
    return jobs.unionByName(placeholder_jobs(tables), allowMissingColumns=True)


def _aggregate_events(lineage_events: DataFrame) -> DataFrame:
    run = F.when(F.col("run_uuid").isNotNull(), F.struct("event_time", "seq", "run_uuid"))
    return (
        lineage_events.where(F.col("job_name").isNotNull())
        .groupBy(*_JOB_KEY)
        .agg(
            F.max(run).alias("latest"),
            F.min("event_time").alias("first_event_at"),
            F.max("event_time").alias("last_event_at"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
        )
        .select(
            *_JOB_KEY,
            F.lit(False).alias("is_placeholder"),  # noqa: FBT003
            F.col("latest.run_uuid").alias("latest_run_uuid"),
            F.col("latest.event_time").alias("latest_run_at"),
            F.col("latest.seq").alias("latest_run_seq"),
            "first_event_at",
            "last_event_at",
            "first_seq",
            "last_seq",
        )
    )


def _parsed_job_facets(job_facets: DataFrame) -> DataFrame:
    """Parse the last facet of each name of a job."""
    order = {name: F.when(F.col("name") == name, F.col("precedence")) for name in _JOB_PARSERS}
    last = (
        job_facets.where(F.col("name").isin(*_JOB_PARSERS))
        .groupBy(*_JOB_KEY)
        .agg(
            *(F.max_by("facet", key).alias(name) for name, key in order.items()),
            *(F.max_by("seq", key).alias(_JOB_SEQS[name]) for name, key in order.items()),
        )
    )
    return parse_facets(last, _JOB_PARSERS)


_JOB_VERSION_KEY = ["job_namespace", "job_name", "version"]
_CONTENT = ["inputs", "outputs", "source_code_location"]


def derive_job_versions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per job and version, from runs and JobEvents."""
    of_run = F.when(F.col("run_uuid").isNotNull(), F.struct("at", "seq"))
    return (
        tables["observed_job_versions"]
        .groupBy(*_JOB_VERSION_KEY)
        .agg(
            *(F.min_by(column, "seq").alias(column) for column in _CONTENT),
            F.min("at").alias("created_at"),
            F.min_by("run_uuid", of_run).alias("first_run_uuid"),
            F.max_by("run_uuid", of_run).alias("latest_run_uuid"),
            F.count("run_uuid").alias("run_count"),
            F.min("seq").alias("first_seq"),
            F.max("seq").alias("last_seq"),
        )
    )


def derive_observed_job_versions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per ended run and per JobEvent, with its job version."""
    columns = [*_JOB_VERSION_KEY, *_CONTENT, "run_uuid", "at", "seq"]
    of_runs = (
        tables["runs"]
        .where(F.col("job_version").isNotNull())
        .withColumnsRenamed({"job_version": "version", "ended_at": "at", "state_seq": "seq"})
        .transform(_with_io, tables["run_io"], "run_uuid")
    )
    return of_runs.select(*columns).unionByName(_declared(tables).select(*columns))


def _declared(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per JobEvent, which replaces earlier declarations."""
    events = tables["lineage_events"].where((F.col("kind") == "JOB") & F.col("job_name").isNotNull())
    locations = parse_facets(
        tables["job_facets"].where("name = 'sourceCodeLocation' and run_uuid is null").select("event_id", "facet"),
        {"facet": SOURCE_CODE_LOCATION},
    )
    return (
        events.select("event_id", "job_namespace", "job_name", "run_uuid", F.col("event_time").alias("at"), "seq")
        .join(locations, "event_id", how="left")
        .transform(_with_io, reported_io(tables), "event_id")
        .withColumn("version", job_version_hash())
    )


def _with_io(rows: DataFrame, io: DataFrame, key: str) -> DataFrame:
    return rows.join(inputs_and_outputs_by(io, key), key, how="left").withColumns(
        {column: F.coalesce(column, F.array()) for column in ("inputs", "outputs")}
    )
