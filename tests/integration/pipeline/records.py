"""Helpers to ingest events in batches and to read all rows of lake and index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from tests.reference.facet_blobs import index_facets

from clew.data_dir import DataDir
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.index.backends.sqlite import connect_reader
from clew.lake.lake import Lake
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.worker_reports import WorkerReport, collect_reports
from clew.pipeline.workers import EventTask

TableRows = dict[str, list[str]]


def make_event(number: int, note: str = "") -> bytes:
    """Make an event of a run of three events; runs share jobs and datasets."""
    dataset = {"namespace": "n", "name": f"d{number % 5}", "facets": {"schema": {"fields": [{"name": f"c{number}"}]}}}
    lineage = {"fields": {"c": {"inputFields": [{"namespace": "n", "name": f"d{number % 5 - 1}", "field": "c"}]}}}
    output = {**dataset, "name": f"d{number % 5 + 1}", "facets": {"columnLineage": lineage}}
    return json.dumps(
        {
            "eventType": ("START", "RUNNING", "COMPLETE")[number % 3],
            "eventTime": f"2026-01-01T10:{number % 60:02}:00Z",
            "run": {"runId": f"run-{number // 3}", "facets": {"note": {"text": note}}},
            "job": {"namespace": "n", "name": f"j{number % 7}"},
            "inputs": [dataset],
            "outputs": [output],
        }
    ).encode()


def append_events(home: DataDir, *bodies: bytes) -> None:
    with LogWriter(home.log) as log:
        log.append_duplicates(IncomingEvent(Stream.OPENLINEAGE, "test", body) for body in bodies)


def run_pipeline(home: DataDir, spark: SparkSession | None, bytes_per_trigger: int, *, is_derived: bool = True) -> None:
    """Ingest the log with a number of bytes per batch, and refresh derived tables."""
    with open_pipeline(home, spark=spark) as pipeline:
        limited = replace(pipeline, bytes_per_trigger=bytes_per_trigger)
        if is_derived:
            limited.run()
        else:
            limited.ingest_available()


def read_tables(home: DataDir, *excluded: str) -> TableRows:
    """Read all rows of lake and index, without the batch and the excluded columns."""
    lake = Lake(home.lake)
    rows = {name: table.to_pyarrow_table().to_pylist() for name in lake.row_counts() if (table := lake.table(name))}
    with closing(connect_reader(home.index_file)) as index:
        names = [row["name"] for row in index.execute("select name from sqlite_master where type = 'table'")]
        for name in set(names) - {"meta", "batches", "zstd_dictionaries"}:
            rows[f"index.{name}"] = [dict(row) for row in index.execute(f"select * from {name}")]
        rows["index.facets"] = index_facets(index)
    return {name: sorted(to_comparable(row, {"batch", *excluded}) for row in table) for name, table in rows.items()}


def to_comparable(row: dict[str, Any], excluded: set[str]) -> str:
    return json.dumps({name: value for name, value in row.items() if name not in excluded}, default=str, sort_keys=True)


def log_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.ndjson"))


class LocalReports:
    """Reports of a worker that ran in this process, where monkeypatches apply."""

    def __init__(self, reports: Iterator[pa.RecordBatch]) -> None:
        self._reports = list(reports)

    def toArrow(self) -> pa.Table:  # noqa: N802  # Spark's name
        return pa.Table.from_batches(self._reports)


def write_events_locally(ranges: DataFrame, task: EventTask) -> WorkerReport:
    """Replace `write_events`: run the task in this process."""
    reports: Any = LocalReports(task(iter(ranges.toArrow().to_batches())))
    return collect_reports(reports)
