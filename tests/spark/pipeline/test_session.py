"""What a session sets up for the Python processes that Spark starts."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession


def test_workers_load_the_installed_modules(spark: SparkSession) -> None:
    (row,) = spark.range(1).mapInArrow(where_it_was_loaded_from, "file string, spark_home string").collect()
    assert row["file"] == pyspark.__file__
    assert row["spark_home"] != os.environ.get("SPARK_HOME")


def where_it_was_loaded_from(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"file": [pyspark.__file__], "spark_home": [os.environ["SPARK_HOME"]]})
