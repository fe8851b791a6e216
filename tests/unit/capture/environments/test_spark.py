"""Tests of the Spark properties for OpenLineage's listener; no JVM is needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from clew.capture.diagnostics import error_counts
from clew.capture.emit.delivery import pending_folders
from clew.capture.emit.files import SPARK
from clew.capture.environments.session import Cell, Execution, Session, enter_execution, leave_execution
from clew.capture.environments.spark import LISTENER, configure_builder, listener_properties

PACKAGE = {"spark.jars.packages": "io.openlineage:openlineage-spark_2.13:1.40.0"}


@pytest.fixture
def execution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Execution]:
    monkeypatch.setenv("CLEW_STREAMS", str(tmp_path))
    running = Execution(Session("book.py"), Cell(id="Hbol", source="", name="load"))
    token = enter_execution(running)
    yield running
    leave_execution(token)


def test_parents_are_the_cell_and_the_session(execution: Execution, tmp_path: Path) -> None:
    session = execution.session
    assert listener_properties(PACKAGE, execution) == {
        "spark.extraListeners": LISTENER,
        "spark.openlineage.parentJobNamespace": "marimo",
        "spark.openlineage.parentJobName": "book/load",
        "spark.openlineage.parentRunId": execution.run_id,
        "spark.openlineage.rootParentJobNamespace": "marimo",
        "spark.openlineage.rootParentJobName": "book",
        "spark.openlineage.rootParentRunId": session.run_id,
        "spark.openlineage.transport.type": "file",
        "spark.openlineage.transport.location": str(tmp_path / session.session_id / SPARK),
    }


@pytest.mark.parametrize(
    ("options", "submitted", "is_configured"),
    [
        ({}, "", False),
        ({"spark.jars": "/jars/delta.jar"}, "", False),
        ({"spark.jars": "/jars/a.jar,/jars/openlineage-spark_2.13-1.40.0.jar"}, "", True),
        ({"spark.driver.extraClassPath": "/jars/openlineage-spark_2.13-1.40.0.jar"}, "", True),
        ({}, "--packages io.openlineage:openlineage-spark_2.13:1.40.0 pyspark-shell", True),
    ],
)
def test_no_properties_without_the_jar(
    execution: Execution,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, str],
    submitted: str,
    is_configured: bool,
) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submitted)
    assert bool(listener_properties(options, execution)) == is_configured


def test_user_settings_are_kept(execution: Execution, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://localhost:5000")
    options = {
        **PACKAGE,
        "spark.extraListeners": "my.Listener",
        "spark.openlineage.parentRunId": "mine",
        "spark.openlineage.transport.type": "console",
    }
    properties = listener_properties(options, execution)
    assert properties["spark.extraListeners"] == f"my.Listener,{LISTENER}"
    assert not any("arent" in name for name in properties)
    assert not any("transport" in name for name in properties)


@pytest.mark.parametrize(("worker", "is_sent"), [("", True), ("off", False)])
def test_events_are_spooled_to_a_file_for_the_worker(
    execution: Execution, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, worker: str, is_sent: bool
) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://localhost:5000")
    monkeypatch.setenv("CLEW_WORKER", worker)
    properties = listener_properties(PACKAGE, execution)
    assert properties["spark.openlineage.transport.type"] == "file"
    assert pending_folders(tmp_path) == ([tmp_path / execution.session.session_id] if is_sent else [])


def test_jar_is_found_in_spark_home(execution: Execution, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert not listener_properties({}, execution)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "openlineage-spark_2.13-1.40.0.jar").touch()
    assert listener_properties({}, execution)


@pytest.mark.usefixtures("execution")
def test_spark_defaults_are_user_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.jars.packages  io.openlineage:openlineage-spark_2.13:1.40.0\n"
        "spark.openlineage.parentRunId=mine\n"
    )
    builder: Any = SparkSession.Builder()
    configure_builder(builder)
    assert builder._options["spark.extraListeners"] == LISTENER
    assert "spark.openlineage.transport.location" in builder._options
    assert not any("arent" in name for name in builder._options)
    assert error_counts() == {}


def test_configure_builder(execution: Execution) -> None:
    builder: Any = SparkSession.Builder()
    for name, value in PACKAGE.items():
        builder.config(name, value)
    configure_builder(builder)
    assert builder._options["spark.openlineage.parentRunId"] == execution.run_id
    assert error_counts() == {}
