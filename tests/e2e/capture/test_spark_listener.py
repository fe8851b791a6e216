"""Tests of a notebook with OpenLineage's Spark listener: Spark runs are children of the cell's run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.jars import NoJarError, download_jar
from tests.support.event_receivers import EventReceiver

from clew.capture.emit.files import LINEAGE, SPARK
from clew.pipeline.spark.java import environment, find_java

pytestmark = pytest.mark.spark

TIMEOUT_SECONDS = 180

NOTEBOOK = """
import marimo
app = marimo.App()

@app.cell
def session():
    import os
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.jars", os.environ["LISTENER"]).getOrCreate()
    return (spark,)

@app.cell
def report(spark):
    orders = spark.read.csv("in.csv", header=True, inferSchema=True)
    orders.filter("qty > 0").selectExpr("id", "price * qty as amount").write.parquet("out.parquet")
    report = "out.parquet"
    return (report,)

@app.cell
def top(report):
    import pandas as pd
    pd.read_parquet(report).nlargest(1, "amount").to_csv("top.csv", index=False)
    return

if __name__ == "__main__":
    app.run()
"""


class ListenerRun(NamedTuple):
    """The notebook's folder, its streams, and the endpoint with the received events."""

    folder: Path
    streams: Path
    receiver: EventReceiver


@pytest.fixture(scope="module")
def listener(pytestconfig: pytest.Config) -> Path:
    """Return the listener's jar (43 MB), downloaded once per checkout."""
    assert pytestconfig.cache is not None
    try:
        return download_jar("io.openlineage", "openlineage-spark_2.13", "1.53.0", pytestconfig.cache.mkdir("jars"))
    except NoJarError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def listener_run(listener: Path, tmp_path_factory: pytest.TempPathFactory) -> ListenerRun:
    folder, receiver = tmp_path_factory.mktemp("notebook"), EventReceiver()
    (folder / "book.py").write_text(NOTEBOOK)
    (folder / "in.csv").write_text("id,price,qty\n1,2.5,3\n2,4.0,0\n")
    with receiver.listen() as url:
        run_clew(folder, "run", "--home", "home", "book.py", LISTENER=str(listener), **endpoint_variables(url))
        (streams,) = (folder / "home" / "streams").iterdir()
        with receiver.received_condition:
            # The JVM ends after the kernel, and the worker process after both.
            assert receiver.received_condition.wait_for(lambda: is_sent(receiver, streams), TIMEOUT_SECONDS)
    return ListenerRun(folder, streams, receiver)


def run_clew(folder: Path, *arguments: str, **variables: str) -> str:
    java = environment(find_java(folder / "launchers"))
    result = subprocess.run(
        [sys.executable, "-m", "clew", *arguments],
        cwd=folder,
        env={**os.environ, **java, "CLEW_PROJECT": str(folder), **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    return result.stdout


def endpoint_variables(url: str) -> dict[str, str]:
    return {"OPENLINEAGE_URL": url, "OPENLINEAGE_API_KEY": "k1"}


def is_sent(receiver: EventReceiver, streams: Path) -> bool:
    applications = [event["eventType"] for event in spark_events(receiver) if is_application(event)]
    return applications == ["START", "COMPLETE"] and len(spark_events(receiver)) == len(read_events(streams / SPARK))


def is_application(event: dict[str, Any]) -> bool:
    return bool(event["job"]["facets"]["jobType"]["jobType"] == "APPLICATION")


def spark_events(receiver: EventReceiver) -> list[dict[str, Any]]:
    events = [json.loads(body) for body in receiver.bodies("/api/v1/lineage")]
    return [event for event in events if event["job"]["facets"]["jobType"]["integration"] == "SPARK"]


def read_events(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_spark_runs_are_children_of_the_cell_that_created_the_session(listener_run: ListenerRun) -> None:
    notebook_events = read_events(listener_run.streams / LINEAGE)
    (cell,) = {event["run"]["runId"] for event in notebook_events if event["job"]["name"] == "book/session"}
    (notebook,) = {event["run"]["runId"] for event in notebook_events if event["job"]["name"] == "book"}
    events = read_events(listener_run.streams / SPARK)
    application = events[0]["run"]["runId"]
    parents = [(event["run"]["runId"], event["run"]["facets"]["parent"]) for event in events]
    assert {(run == application, parent["run"]["runId"]) for run, parent in parents} == {
        (True, cell),
        (False, application),
    }
    assert {parent["root"]["run"]["runId"] for _, parent in parents} == {notebook}


def test_endpoint_receives_all_listener_events(listener_run: ListenerRun) -> None:
    assert spark_events(listener_run.receiver) == read_events(listener_run.streams / SPARK)
    assert listener_run.receiver.authorizations == {"Bearer k1"}


def test_pipeline_connects_spark_and_pandas_lineage(listener_run: ListenerRun) -> None:
    run_clew(listener_run.folder, "pipeline", "run", "--home", "home")
    reached = collect_columns(
        json.loads(run_clew(listener_run.folder, "upstream", "--home", "home", "--json", "top.csv.amount"))
    )
    assert {("out.parquet", "amount"), ("in.csv", "price"), ("in.csv", "qty")} <= reached
    (rolled_up,) = run_clew(
        listener_run.folder, "upstream", "--home", "home", "--roll-up", "root", "out.parquet"
    ).splitlines()[1:2]
    assert "book  job marimo" in rolled_up


def collect_columns(step: dict[str, Any]) -> set[tuple[str, str]]:
    """Return a column and all its upstream columns."""
    column = (Path(step["dataset"]["name"]).name, step["column"])
    return {column}.union(*[collect_columns(source) for source in step["upstream"]])
