"""Tests of starting Spark on the system's Java and on the bundled one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clew.errors import ClewError
from clew.pipeline.spark.java import environment, find_java

COUNT_ONE_ROW = """
from pyspark.sql import SparkSession

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
    .getOrCreate()
)
version = spark._jvm.java.lang.System.getProperty("java.specification.version")
print("rows", spark.range(1).count(), "java", version)
"""


@pytest.mark.parametrize("choice", ["system", "bundled"])
def test_spark_starts(choice: str, tmp_path: Path) -> None:
    try:
        java = find_java(tmp_path / "launchers", environ={**os.environ, "CLEW_JAVA": choice})
    except ClewError as error:
        pytest.skip(error.message)
    environ = {**os.environ, **environment(java), "SPARK_LOCAL_IP": "127.0.0.1"}
    process = subprocess.run(
        [sys.executable, "-c", COUNT_ONE_ROW], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.stdout.endswith(f"rows 1 java {java.major_version}\n"), process.stderr
