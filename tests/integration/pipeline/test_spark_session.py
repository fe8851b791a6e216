"""Tests of the session's settings for Spark's Python processes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from clew.pipeline.spark.session import tuned_for_size

PARTITIONS = "spark.sql.shuffle.partitions"


def test_workers_load_the_installed_modules(spark: SparkSession) -> None:
    (row,) = spark.range(1).mapInArrow(report_module_file, "file string").collect()
    assert row["file"] == pyspark.__file__


def report_module_file(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__]})


@pytest.mark.parametrize(
    ("size", "is_small", "partitions"), [(1 << 20, True, "1"), (1 << 20, False, "2"), (10 << 30, False, "40")]
)
def test_partitions_grow_with_the_size_of_the_events(
    spark: SparkSession, size: int, is_small: bool, partitions: str
) -> None:
    with tuned_for_size(spark, size, is_small=is_small):
        assert spark.conf.get(PARTITIONS) == partitions
    assert spark.conf.get(PARTITIONS) == "2"
