"""A notebook with a Spark cell, and OpenLineage's own listener: its runs are children of the cell's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from bench.jars import NoJarError, fetched
from tests.support.event_receivers import Taker

from clew.capture.emit.files import LINEAGE, SPARK
from clew.pipeline.spark.java import environment, find_java

pytestmark = pytest.mark.spark

SECONDS = 180

BOOK = """
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


class Ran(NamedTuple):
    """The notebook's folder, its streams, and what an endpoint was sent that asks for a key."""

    folder: Path
    streams: Path
    taker: Taker


@pytest.fixture(scope="module")
def listener(pytestconfig: pytest.Config) -> Path:
    """The listener's jar, fetched once for a checkout; 43 MB."""
    assert pytestconfig.cache is not None
    try:
        return fetched("io.openlineage", "openlineage-spark_2.13", "1.53.0", pytestconfig.cache.mkdir("jars"))
    except NoJarError as fault:
        pytest.skip(str(fault))


@pytest.fixture(scope="module")
def ran(listener: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder, taker = tmp_path_factory.mktemp("notebook"), Taker()
    (folder / "book.py").write_text(BOOK)
    (folder / "in.csv").write_text("id,price,qty\n1,2.5,3\n2,4.0,0\n")
    with taker.listening() as url:
        clew(folder, "run", "--home", "home", "book.py", LISTENER=str(listener), **sent_to(url))
        (streams,) = (folder / "home" / "streams").iterdir()
        with taker.has_taken:
            # The JVM ends after the kernel, and the worker after both.
            assert taker.has_taken.wait_for(lambda: is_sent(taker, streams), SECONDS)
    return Ran(folder, streams, taker)


def clew(folder: Path, *arguments: str, **variables: str) -> str:
    java = environment(find_java(folder / "launchers"))
    ended = subprocess.run(
        [sys.executable, "-m", "clew", *arguments],
        cwd=folder,
        env={**os.environ, **java, **variables},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    return ended.stdout


def sent_to(url: str) -> dict[str, str]:
    return {"OPENLINEAGE_URL": url, "OPENLINEAGE_API_KEY": "k1"}


def is_sent(taker: Taker, streams: Path) -> bool:
    applications = [event["eventType"] for event in of_spark(taker) if is_application(event)]
    return applications == ["START", "COMPLETE"] and len(of_spark(taker)) == len(told(streams / SPARK))


def is_application(event: dict[str, Any]) -> bool:
    return bool(event["job"]["facets"]["jobType"]["jobType"] == "APPLICATION")


def of_spark(taker: Taker) -> list[dict[str, Any]]:
    events = [json.loads(body) for body in taker.bodies("/api/v1/lineage")]
    return [event for event in events if event["job"]["facets"]["jobType"]["integration"] == "SPARK"]


def told(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_runs_of_a_session_are_children_of_the_cell_that_made_it(ran: Ran) -> None:
    own = told(ran.streams / LINEAGE)
    (cell,) = {event["run"]["runId"] for event in own if event["job"]["name"] == "book/session"}
    (notebook,) = {event["run"]["runId"] for event in own if event["job"]["name"] == "book"}
    events = told(ran.streams / SPARK)
    application = events[0]["run"]["runId"]
    parents = [(event["run"]["runId"], event["run"]["facets"]["parent"]) for event in events]
    assert {(run == application, parent["run"]["runId"]) for run, parent in parents} == {
        (True, cell),
        (False, application),
    }
    assert {parent["root"]["run"]["runId"] for _, parent in parents} == {notebook}


def test_an_endpoint_is_sent_what_the_listener_wrote_to_the_last_event(ran: Ran) -> None:
    assert of_spark(ran.taker) == told(ran.streams / SPARK)
    assert ran.taker.keys == {"Bearer k1"}


def test_the_pipeline_ties_spark_and_pandas_together(ran: Ran) -> None:
    clew(ran.folder, "pipeline", "run", "--home", "home")
    reached = columns_in(json.loads(clew(ran.folder, "upstream", "--home", "home", "--json", "top.csv.amount")))
    assert {("out.parquet", "amount"), ("in.csv", "price"), ("in.csv", "qty")} <= reached
    (rolled_up,) = clew(ran.folder, "upstream", "--home", "home", "--roll-up", "root", "out.parquet").splitlines()[1:2]
    assert "book  job marimo" in rolled_up


def columns_in(step: dict[str, Any]) -> set[tuple[str, str]]:
    """A column and all that it came from."""
    own = (Path(step["dataset"]["name"]).name, step["column"])
    return {own}.union(*[columns_in(one) for one in step["upstream"]])
