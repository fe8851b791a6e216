"""Tests of the session's settings for Spark's Python processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.processes import list_daemon_pids

from clew.eventlog.segments import segment_path
from clew.pipeline.log_source import FORMAT_NAME
from clew.pipeline.spark.worker_daemon import EVENT_WORKER_ENV

PROC = Path("/proc")


def test_workers_load_the_installed_modules(spark: SparkSession) -> None:
    (row,) = spark.range(1).mapInArrow(report_module_file, "file string").collect()
    assert row["file"] == pyspark.__file__


def report_module_file(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})


@pytest.mark.skipif(not PROC.exists(), reason="needs /proc")
def test_ranges_and_events_have_separate_daemons(spark: SparkSession, tmp_path: Path) -> None:
    segment_path(tmp_path, 0).write_bytes(b"{}\n")
    (row,) = spark.read.format(FORMAT_NAME).load(str(tmp_path)).mapInArrow(report_daemon_pid, "daemon long").collect()
    daemon_pids = list_daemon_pids()
    event_daemon_pids = {pid for pid in daemon_pids if EVENT_WORKER_ENV.encode() in read_environment(pid)}
    assert row["daemon"] in event_daemon_pids
    assert daemon_pids - event_daemon_pids


def report_daemon_pid(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})


def read_environment(pid: int) -> bytes:
    return (PROC / str(pid) / "environ").read_bytes()
