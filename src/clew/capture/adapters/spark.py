"""Spark: OpenLineage's own listener sees what a session does; its runs are made children of the cell that started it.

Nothing is done unless the listener's jar is there, by `spark.jars.packages` or otherwise. The listener reads its
settings when the application starts, so all jobs of a session belong to the cell that made the session.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.capture.imports import when_imported
from clew.capture.losses import count_loss
from clew.capture.sessions import Execution, current_execution
from clew.capture.streams.delivery import note_beginning
from clew.capture.streams.endpoint import find_endpoint
from clew.capture.streams.facets import NAMESPACE
from clew.capture.streams.files import SPARK, streams_folder
from clew.capture.streams.worker import is_wanted

LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"
_MODULE = "pyspark.sql.session"
_JAR = "openlineage-spark"
_CONFIGURED_IN = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_LISTENERS = "spark.extraListeners"
_PARENTS = ("spark.openlineage.parent", "spark.openlineage.rootParent")
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
        options: dict[str, str] = {**_defaults(), **builder._options}
        for name, value in listener_properties(options, execution).items():
            builder.config(name, value)
    except Exception as error:  # noqa: BLE001 - a session must start whatever happens to its lineage
        count_loss("Spark", error)


def listener_properties(options: Mapping[str, str], execution: Execution) -> dict[str, str]:
    """The listener, its parents and where it writes: what is to be set besides `options`; nothing without the jar."""
    if not _is_configured(options):
        return {}
    found = {**_parents(options, execution), **_transport(options, execution.session.session_id)}
    listeners = [one for one in str(options.get(_LISTENERS, "")).split(",") if one]
    if LISTENER not in listeners:
        found[_LISTENERS] = ",".join((*listeners, LISTENER))
    return found


def _parents(options: Mapping[str, str], execution: Execution) -> dict[str, str]:
    """The cell, and the session above it. Half of them beside half of a user's own would name what does not exist."""
    if any(name.startswith(_PARENTS) for name in options):
        return {}
    session = execution.session
    return {
        "spark.openlineage.parentJobNamespace": NAMESPACE,
        "spark.openlineage.parentJobName": f"{session.stem}/{execution.cell.label}",
        "spark.openlineage.parentRunId": execution.run_id,
        "spark.openlineage.rootParentJobNamespace": NAMESPACE,
        "spark.openlineage.rootParentJobName": session.stem,
        "spark.openlineage.rootParentRunId": session.run_id,
    }


def _is_configured(options: Mapping[str, str]) -> bool:
    places = [str(options.get(name, "")) for name in _CONFIGURED_IN]
    if any(_JAR in place for place in (*places, os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        return True
    return any((_spark_home() / "jars").glob(f"{_JAR}*.jar"))


def _defaults() -> dict[str, str]:
    """What spark-defaults.conf says: only the JVM reads it."""
    folder = os.environ.get("SPARK_CONF_DIR") or _spark_home() / "conf"
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = [re.split(r"[\s=:]+", line.strip(), maxsplit=1) for line in lines]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[0].startswith("spark.")}


def _spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(sys.modules["pyspark"].__file__ or "").parent)


def _transport(options: Mapping[str, str], session_id: str) -> dict[str, str]:
    """Into a file beside the streams, from where it is sent as they are; a user's own choice stays."""
    if any(name.startswith(_TRANSPORT) for name in options):
        return {}
    folder = streams_folder(session_id)
    folder.mkdir(parents=True, exist_ok=True)
    if is_wanted() and find_endpoint() is not None:
        # Before the JVM starts: the worker may not be there yet when its first events are.
        note_beginning(folder)
    return {f"{_TRANSPORT}type": "file", f"{_TRANSPORT}location": str(folder / SPARK)}
