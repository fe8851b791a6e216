"""Spark: OpenLineage's own listener sees what a session does; its runs are made children of the cell that started it.

Nothing is done unless the listener's jar is configured, as `spark.jars.packages` or otherwise. The listener reads its
settings when the application starts, so all jobs of a session belong to the cell that made the session.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping
from typing import Any

from clew.capture.imports import when_imported
from clew.capture.losses import count_loss
from clew.capture.sessions import Execution, current_execution
from clew.capture.streams.facets import NAMESPACE
from clew.capture.streams.files import streams_folder

SPARK = "spark_lineage_events.jsonl"
LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"
_MODULE = "pyspark.sql.session"
_JAR = "openlineage-spark"
_CONFIGURED_IN = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_LISTENERS = "spark.extraListeners"
_TRANSPORT = "spark.openlineage.transport."


def watch() -> None:
    """Prepare each session that is made once pyspark has been imported."""
    when_imported(_MODULE, _attach)


def _attach() -> None:
    builder = sys.modules[_MODULE].SparkSession.Builder
    original = builder.getOrCreate
    if hasattr(original, "_clew"):
        return

    @functools.wraps(original)
    def get_or_create(self: Any) -> Any:
        prepare(self)
        return original(self)

    get_or_create._clew = True  # type: ignore[attr-defined]
    builder.getOrCreate = get_or_create


def prepare(builder: Any) -> None:
    """Give a builder the properties that it lacks."""
    try:
        execution = current_execution()
        if execution is None or sys.modules[_MODULE].SparkSession.getActiveSession() is not None:
            return
        options: dict[str, str] = builder._options
        for name, value in listener_properties(options, execution).items():
            builder.config(name, value)
    except Exception as error:  # noqa: BLE001 - a session must start whatever happens to its lineage
        count_loss("Spark", error)


def listener_properties(options: Mapping[str, str], execution: Execution) -> dict[str, str]:
    """The listener, its parents and where it writes: what is to be set besides `options`; nothing without the jar."""
    places = [str(options.get(name, "")) for name in _CONFIGURED_IN]
    if not any(_JAR in place for place in (*places, os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        return {}
    session = execution.session
    wanted = {
        "spark.openlineage.parentJobNamespace": NAMESPACE,
        "spark.openlineage.parentJobName": f"{session.stem}/{execution.cell.label}",
        "spark.openlineage.parentRunId": execution.run_id,
        "spark.openlineage.rootParentJobNamespace": NAMESPACE,
        "spark.openlineage.rootParentJobName": session.stem,
        "spark.openlineage.rootParentRunId": session.run_id,
        **_transport(options, session.session_id),
    }
    found = {name: value for name, value in wanted.items() if name not in options}
    listeners = [one for one in str(options.get(_LISTENERS, "")).split(",") if one]
    if LISTENER not in listeners:
        found[_LISTENERS] = ",".join((*listeners, LISTENER))
    return found


def _transport(options: Mapping[str, str], session_id: str) -> dict[str, str]:
    """To the endpoint that the environment names, else into a file beside the streams; a user's own choice stays."""
    if any(name.startswith(_TRANSPORT) for name in options):
        return {}
    url = os.environ.get("OPENLINEAGE_URL")
    if url:
        return {f"{_TRANSPORT}type": "http", f"{_TRANSPORT}url": url}
    folder = streams_folder(session_id)
    folder.mkdir(parents=True, exist_ok=True)
    return {f"{_TRANSPORT}type": "file", f"{_TRANSPORT}location": str(folder / SPARK)}
