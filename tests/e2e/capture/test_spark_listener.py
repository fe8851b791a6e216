"""A notebook with a Spark cell, and OpenLineage's own listener: its runs are children of the cell's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.jars import NoJarError, fetched

from clew.pipeline.java import environment, find_java

pytestmark = pytest.mark.spark

SECONDS = 180

BOOK = """
import marimo
app = marimo.App()

@app.cell
def report():
    import os
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.jars", os.environ["LISTENER"]).getOrCreate()
    orders = spark.read.csv("in.csv", header=True, inferSchema=True)
    orders.filter("qty > 0").selectExpr("id", "price * qty as amount").write.parquet("out.parquet")
    spark.stop()

if __name__ == "__main__":
    app.run()
"""


@pytest.fixture(scope="module")
def listener(pytestconfig: pytest.Config) -> Path:
    """The listener's jar, fetched once for a checkout; 43 MB."""
    assert pytestconfig.cache is not None
    try:
        return fetched("io.openlineage", "openlineage-spark_2.13", "1.53.0", pytestconfig.cache.mkdir("jars"))
    except NoJarError as fault:
        pytest.skip(str(fault))


def told(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_runs_of_a_session_are_children_of_the_cell_that_made_it(listener: Path, tmp_path: Path) -> None:
    (tmp_path / "book.py").write_text(BOOK)
    (tmp_path / "in.csv").write_text("id,price,qty\n1,2.5,3\n2,4.0,0\n")
    java = environment(find_java(tmp_path / "launchers"))
    subprocess.run(
        [sys.executable, "-m", "clew", "run", "--out", "streams", "book.py"],
        cwd=tmp_path,
        env={**os.environ, **java, "LISTENER": str(listener)},
        check=True,
        timeout=SECONDS,
    )
    own = told(tmp_path / "streams" / "marimo_lineage_events.jsonl")
    (cell,) = {event["run"]["runId"] for event in own if event["job"]["name"] == "book/report"}
    events = told(tmp_path / "streams" / "spark_lineage_events.jsonl")
    application = events[0]["run"]["runId"]
    parents = {
        (event["run"]["runId"] == application, event["run"]["facets"]["parent"]["run"]["runId"]) for event in events
    }
    assert parents == {(True, cell), (False, application)}
    (written,) = [
        output["facets"]["columnLineage"]["fields"]
        for event in events
        if event["eventType"] == "COMPLETE"
        for output in event["outputs"]
        if output["name"] == str(tmp_path / "out.parquet")
    ]
    assert {field["field"] for field in written["amount"]["inputFields"]} == {"price", "qty"}
