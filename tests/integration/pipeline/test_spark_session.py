"""What a session sets up for the Python processes that Spark starts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.processes import daemons

from clew.eventlog.segments import segment_path
from clew.pipeline.log_source import FORMAT_NAME
from clew.pipeline.spark.worker_daemon import EVENT_WORKER_ENV

PROCESSES = Path("/proc")


def test_workers_load_the_installed_modules(spark: SparkSession) -> None:
    (row,) = spark.range(1).mapInArrow(where_it_was_loaded_from, "file string").collect()
    assert row["file"] == pyspark.__file__


def where_it_was_loaded_from(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})


@pytest.mark.skipif(not PROCESSES.exists(), reason="only Linux tells the environment of a process")
def test_what_names_ranges_is_another_process_than_what_moves_events(spark: SparkSession, tmp_path: Path) -> None:
    segment_path(tmp_path, 0).write_bytes(b"{}\n")
    (row,) = spark.read.format(FORMAT_NAME).load(str(tmp_path)).mapInArrow(who_forked_it, "daemon long").collect()
    both = daemons()
    moving = {pid for pid in both if EVENT_WORKER_ENV.encode() in environment(pid)}
    assert row["daemon"] in moving
    assert both - moving


def who_forked_it(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()]})


def environment(pid: int) -> bytes:
    return (PROCESSES / str(pid) / "environ").read_bytes()
