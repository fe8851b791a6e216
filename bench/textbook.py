"""The plan of Spark's guides: text, `from_json` with a full schema, persist, one write per table.

The tables are those of the pipeline: events without duplicates, invalid events with a reason, large facets in their own
table.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from functools import reduce
from importlib.resources import files
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from clew.lake.facet_columns import MAX_INLINE_BYTES
from clew.pipeline.spark.java import environment, find_java

_FACETS = "map<string, string>"
_DATASET = f"namespace: string, name: string, facets: {_FACETS}"
_CORRUPT = "_corrupt_record"
_EVENT = f"""
    eventType string, eventTime timestamp, producer string, schemaURL string, session_id string, execution_id string,
    run struct<runId: string, facets: {_FACETS}>,
    job struct<namespace: string, name: string, facets: {_FACETS}>,
    dataset struct<{_DATASET}>,
    inputs array<struct<{_DATASET}, inputFacets: {_FACETS}>>,
    outputs array<struct<{_DATASET}, outputFacets: {_FACETS}>>,
    {_CORRUPT} string
"""
_FACET_KEYS = ("uuid", "created_at", "run_uuid", "lineage_event_time", "lineage_event_type")
_FACET_BODY = ("name", "facet")
_ORIGIN = ("event_id", "seq")
_JOB = ("job_namespace", "job_name")
_DATASET_COLUMNS = ("dataset_namespace", "dataset_name", "dataset_version", "direction")


def build_default_session(memory: str, extra: Mapping[str, str]) -> SparkSession:
    """Build a session with Spark's default settings and a heap; with clew's settings (C1 compiler) it is slower."""
    # The version of pandas matters only for Arrow paths, which are not used.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    os.environ.update(environment(find_java()))
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    logging = files("clew.pipeline") / "log4j2.properties"
    settings: dict[str, str | bool | int | float | None] = {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        # Persisted data has the partitions of its shuffle: with Spark's default of 200, every table gets 200 files.
        "spark.sql.shuffle.partitions": "4",
        **extra,
    }
    return SparkSession.builder.appName("textbook").master("local[2]").config(map=settings).getOrCreate()


def write_tables(spark: SparkSession, events: Path, root: Path) -> None:
    """Write the tables of lineage events from a file of one event per line, in a format of Spark."""
    parsed = spark.read.text(str(events)).transform(parse_events).persist()
    valid = parsed.where("reason is null")
    # Only a large event can have a large facet.
    large = valid.where(F.octet_length("event") > MAX_INLINE_BYTES)
    tables = {
        "large_facets": large_facets(facet_tables(large).values()),
        **{name: rows.transform(move_large_facets) for name, rows in facet_tables(valid).items()},
        "rejected_events": parsed.transform(rejected_events),
        "lineage_events": valid.transform(lineage_events),
    }
    for name, rows in tables.items():
        rows.write.format("delta").save(str(root / name))
    parsed.unpersist(blocking=True)


def parse_events(lines: DataFrame) -> DataFrame:
    """Parse each distinct line into columns, with the raw text; `reason` is set if it is not a valid event."""
    received = lines.select(
        F.md5("value").alias("event_id"),
        F.monotonically_increasing_id().alias("seq"),
        F.current_timestamp().alias("received_at"),
        F.col("value").alias("event"),
    )
    parsed = received.dropDuplicates(["event_id"]).withColumn(
        "e", F.from_json("event", _EVENT, {"columnNameOfCorruptRecord": _CORRUPT})
    )
    return parsed.withColumn("reason", _reason())


def rejected_events(parsed: DataFrame) -> DataFrame:
    """One row per invalid event."""
    return parsed.where("reason is not null").select(
        *("event_id", "seq", "received_at"),
        F.lit("openlineage").alias("stream"),
        F.lit("bench").alias("source"),
        "reason",
        F.lit(None).cast("string").alias("detail"),
        F.col("event").cast("binary").alias("body"),
    )


def lineage_events(valid: DataFrame) -> DataFrame:
    """One row per event."""
    is_run, is_job = F.col("e.run.runId").isNotNull(), F.col("e.job").isNotNull()
    return valid.select(
        "event_id",
        "seq",
        "received_at",
        F.col("e.run.runId").alias("run_uuid"),
        F.col("e.eventTime").alias("event_time"),
        F.col("e.eventType").alias("event_type"),
        "event",
        F.col("e.job.name").alias("job_name"),
        F.col("e.job.namespace").alias("job_namespace"),
        F.col("e.producer").alias("producer"),
        F.when(is_run, "RUN").when(is_job, "JOB").otherwise("DATASET").alias("kind"),
        F.lit("bench").alias("source"),
        F.col("e.schemaURL").alias("schema_url"),
        F.col("e.session_id").alias("session_id"),
        F.col("e.execution_id").alias("execution_id"),
        F.col("e.dataset.namespace").alias("dataset_namespace"),
        F.col("e.dataset.name").alias("dataset_name"),
        F.transform("e.inputs", _identity).alias("inputs"),
        F.transform("e.outputs", _identity).alias("outputs"),
        F.lit(None).cast("boolean").alias("is_raw_only"),
    )


def facet_tables(valid: DataFrame) -> dict[str, DataFrame]:
    """One row per facet, by table."""
    return {
        "dataset_facets": valid.transform(dataset_facets),
        "job_facets": valid.transform(lambda rows: subject_facets(rows, "job")),
        "run_facets": valid.transform(lambda rows: subject_facets(rows, "run")),
    }


def subject_facets(valid: DataFrame, subject: str) -> DataFrame:
    """One row per facet of the event's run, or of its job."""
    rows = valid.select(*_event_columns(), F.posexplode(f"e.{subject}.facets").alias("position", "name", "facet"))
    with_ids = rows.withColumn("uuid", _uuid(F.lit(subject), "position"))
    return with_ids.select(*_FACET_KEYS, *_FACET_BODY, *_JOB, *_ORIGIN)


def dataset_facets(valid: DataFrame) -> DataFrame:
    """One row per facet of each dataset: inputs, outputs and the subject of a DatasetEvent."""
    inputs = F.transform("e.inputs", lambda dataset: _dataset(dataset, "INPUT", dataset.inputFacets))
    outputs = F.transform("e.outputs", lambda dataset: _dataset(dataset, "OUTPUT", dataset.outputFacets))
    subject = F.filter(F.array("e.dataset"), lambda dataset: dataset.isNotNull())
    subjects = F.transform(subject, lambda dataset: _dataset(dataset, None, F.lit(None).cast(_FACETS)))
    empty = F.expr("array()")
    all_datasets = F.concat(F.coalesce(inputs, empty), F.coalesce(outputs, empty), subjects)
    datasets = valid.select(*_event_columns(), F.posexplode(all_datasets).alias("dataset_position", "dataset"))
    facets = datasets.select("*", F.posexplode("dataset.facets").alias("position", "entry"))
    identity = [F.col(f"dataset.{name}").alias(f"dataset_{name}") for name in ("namespace", "name", "version")]
    columns = [F.col(f"entry.{name}").alias(name) for name in ("type", "name", "facet")]
    rows = facets.select("*", *identity, *columns, F.col("dataset.direction").alias("direction"))
    with_ids = rows.withColumn("uuid", _uuid("dataset_position", "position"))
    return with_ids.select(*_FACET_KEYS, "type", *_FACET_BODY, *_DATASET_COLUMNS, *_ORIGIN)


def large_facets(tables: Iterable[DataFrame]) -> DataFrame:
    """Facets that are stored in a separate table."""
    large = [rows.where(_is_large()).select("uuid", "facet", *_ORIGIN) for rows in tables]
    return reduce(DataFrame.unionByName, large)


def move_large_facets(facets: DataFrame) -> DataFrame:
    """Replace large facets by null, and flag facets that are not objects."""
    return facets.select(
        *(name for name in facets.columns if name not in ("facet", *_ORIGIN)),
        *_ORIGIN,
        F.when(~_is_large(), F.col("facet")).alias("facet"),
        F.when(_is_large(), F.octet_length("facet").cast("long")).alias("large_facet_bytes"),
        F.when(~F.col("facet").startswith("{"), "not_an_object").alias("facet_error"),
    )


def _is_large() -> Column:
    return F.octet_length("facet") > MAX_INLINE_BYTES


def _reason() -> Column:
    identity = F.coalesce("e.run.runId", "e.job.name", "e.dataset.name")
    return (
        F.when(F.col(f"e.{_CORRUPT}").isNotNull(), "not_json")
        .when(F.col("e.eventTime").isNull(), "no_time")
        .when(identity.isNull(), "no_identity")
    )


def _event_columns() -> list[Column]:
    columns = {
        "created_at": "received_at",
        "run_uuid": "e.run.runId",
        "lineage_event_time": "e.eventTime",
        "lineage_event_type": "e.eventType",
        "job_namespace": "e.job.namespace",
        "job_name": "e.job.name",
        "event_id": "event_id",
        "seq": "seq",
    }
    return [F.col(path).alias(name) for name, path in columns.items()]


def _uuid(*position: Column | str) -> Column:
    """Deterministic id, by which a large facet is found in another table."""
    return F.concat_ws("-", "event_id", *position)


def _identity(dataset: Column) -> Column:
    return F.struct(dataset.namespace, dataset.getField("name").alias("name"), _version(dataset).alias("version"))


def _version(dataset: Column) -> Column:
    return F.get_json_object(dataset.facets["version"], "$.datasetVersion")


def _dataset(dataset: Column, direction: str | None, own_facets: Column) -> Column:
    return F.struct(
        dataset.namespace.alias("namespace"),
        dataset.getField("name").alias("name"),
        _version(dataset).alias("version"),
        F.lit(direction).cast("string").alias("direction"),
        F.concat(_entries(dataset.facets, "DATASET"), _entries(own_facets, direction)).alias("facets"),
    )


def _entries(facets: Column, kind: str | None) -> Column:
    entries = F.coalesce(F.map_entries(facets), F.expr("array()"))
    return F.transform(
        entries,
        lambda entry: F.struct(
            F.lit(kind).cast("string").alias("type"), entry.key.alias("name"), entry.value.alias("facet")
        ),
    )
