"""The plan that Spark's guides lead to: text, `from_json` with a full schema, persist, one write per table."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from clew.pipeline.java import environment, find_java

_FACETS = "map<string, string>"
_EVENT = f"""
    eventType string, eventTime timestamp, producer string, schemaURL string,
    run struct<runId: string, facets: {_FACETS}>,
    job struct<namespace: string, name: string, facets: {_FACETS}>,
    inputs array<struct<namespace: string, name: string, facets: {_FACETS}, inputFacets: {_FACETS}>>,
    outputs array<struct<namespace: string, name: string, facets: {_FACETS}, outputFacets: {_FACETS}>>
"""
_ROW_OF_FACET = ("uuid", "created_at", "run_uuid", "lineage_event_time", "lineage_event_type", "name", "facet")
_ORIGIN = ("event_id", "seq")
_JOB = ("job_namespace", "job_name")


def stock_session(memory: str, more: Mapping[str, str]) -> SparkSession:
    """Spark with the settings it comes with, and a heap: under ours, with Java's first compiler alone, it is slower."""
    # Only its Arrow paths would care for the version of pandas, and none is used.
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
        **more,
    }
    return SparkSession.builder.appName("textbook").master("local[2]").config(map=settings).getOrCreate()


def write_tables(spark: SparkSession, events: Path, root: Path, kind: str) -> None:
    """The four tables of lineage events, from a file of one event a line, in a format that Spark knows."""
    parsed = spark.read.text(str(events)).transform(parse).persist()
    tables = {
        "lineage_events": parsed.transform(lineage_events),
        "dataset_facets": parsed.transform(dataset_facets),
        "job_facets": parsed.transform(lambda rows: own_facets(rows, "job")),
        "run_facets": parsed.transform(lambda rows: own_facets(rows, "run")),
    }
    for name, rows in tables.items():
        rows.write.format(kind).save(str(root / name))
    parsed.unpersist(blocking=True)


def parse(lines: DataFrame) -> DataFrame:
    """Lines as columns, the raw text among them."""
    return lines.select(
        F.md5("value").alias("event_id"),
        F.monotonically_increasing_id().alias("seq"),
        F.current_timestamp().alias("received_at"),
        F.col("value").alias("event"),
        F.from_json("value", _EVENT).alias("e"),
    )


def lineage_events(parsed: DataFrame) -> DataFrame:
    """One row per event."""
    return parsed.select(
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
        F.lit("RUN").alias("kind"),
        F.lit("bench").alias("source"),
        F.col("e.schemaURL").alias("schema_url"),
        F.transform("e.inputs", _identity).alias("inputs"),
        F.transform("e.outputs", _identity).alias("outputs"),
    )


def own_facets(parsed: DataFrame, subject: str) -> DataFrame:
    """One row per facet of the event's run, or of its job."""
    rows = parsed.select(*_facet_columns(), F.explode(f"e.{subject}.facets").alias("name", "facet"))
    return rows.select(*_ROW_OF_FACET, *_JOB, *_ORIGIN)


def dataset_facets(parsed: DataFrame) -> DataFrame:
    """One row per facet of each dataset, from all four places where one can stand."""
    inputs = F.transform("e.inputs", lambda dataset: _dataset(dataset, "INPUT", dataset.inputFacets))
    outputs = F.transform("e.outputs", lambda dataset: _dataset(dataset, "OUTPUT", dataset.outputFacets))
    datasets = parsed.select(*_facet_columns(), F.explode(F.concat(inputs, outputs)).alias("dataset"))
    facets = datasets.select("*", F.explode("dataset.facets").alias("one"))
    identity = [F.col(f"dataset.{name}").alias(f"dataset_{name}") for name in ("namespace", "name", "version")]
    own = [F.col(f"one.{name}").alias(name) for name in ("type", "name", "facet")]
    rows = facets.select("*", *identity, *own, F.col("dataset.direction").alias("direction"))
    return rows.select(
        *_ROW_OF_FACET, "type", "dataset_namespace", "dataset_name", "dataset_version", "direction", *_ORIGIN
    )


def _facet_columns() -> list[Column]:
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
    return [F.expr("uuid()").alias("uuid"), *(F.col(path).alias(name) for name, path in columns.items())]


def _identity(dataset: Column) -> Column:
    return F.struct(dataset.namespace, dataset.getField("name").alias("name"), _version(dataset).alias("version"))


def _version(dataset: Column) -> Column:
    return F.get_json_object(dataset.facets["version"], "$.datasetVersion")


def _dataset(dataset: Column, direction: str, own: Column) -> Column:
    return F.struct(
        dataset.namespace.alias("namespace"),
        dataset.getField("name").alias("name"),
        _version(dataset).alias("version"),
        F.lit(direction).alias("direction"),
        F.concat(_entries(dataset.facets, "DATASET"), _entries(own, direction)).alias("facets"),
    )


def _entries(facets: Column, kind: str) -> Column:
    entries = F.coalesce(F.map_entries(facets), F.expr("array()"))
    return F.transform(
        entries, lambda entry: F.struct(F.lit(kind).alias("type"), entry.key.alias("name"), entry.value.alias("facet"))
    )
