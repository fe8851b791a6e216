"""Tests of the session's settings for Spark's Python processes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession


def test_workers_load_the_installed_modules(spark: SparkSession) -> None:
    (row,) = spark.range(1).mapInArrow(report_module_file, "file string").collect()
    assert row["file"] == pyspark.__file__


def report_module_file(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})
