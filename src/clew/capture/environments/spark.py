"""Spark: OpenLineage's listener emits the events; its runs become children of the cell that created the session.

Nothing is configured unless the listener's jar is available, by `spark.jars.packages` or otherwise. The listener
reads its settings when the application starts, so all jobs of a session belong to the cell that created it.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clew.capture.diagnostics import record_error
from clew.capture.emit.delivery import find_endpoint, init_delivery_state
from clew.capture.emit.facets import NAMESPACE
from clew.capture.emit.files import SPARK, streams_folder
from clew.capture.emit.worker import is_worker_enabled
from clew.capture.environments.session import Execution, current_execution
from clew.capture.introspection.user_code import strip_frame
from clew.capture.tracking import when_imported

LISTENER = "io.openlineage.spark.agent.OpenLineageSparkListener"
_MODULE = "pyspark.sql.session"
_JAR = "openlineage-spark"
_JAR_OPTIONS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
_LISTENERS = "spark.extraListeners"
_PARENT_PREFIXES = ("spark.openlineage.parent", "spark.openlineage.rootParent")
_TRANSPORT_PREFIX = "spark.openlineage.transport."


def install() -> None:
    """Configure session builders once pyspark has been imported."""
    when_imported(_MODULE, _attach)


def _attach() -> None:
    builder = sys.modules[_MODULE].SparkSession.Builder
    original = builder.getOrCreate
    if hasattr(original, "_clew"):
        return

    @functools.wraps(original)
    def get_or_create(self: Any) -> Any:
        try:
            configure_builder(self)
            return original(self)
        except BaseException as error:
            strip_frame(error)
            raise

    get_or_create._clew = True  # type: ignore[attr-defined]
    builder.getOrCreate = get_or_create


def configure_builder(builder: Any) -> None:
    """Set the missing listener properties on a builder."""
    try:
        execution = current_execution()
        if execution is None or sys.modules[_MODULE].SparkSession.getActiveSession() is not None:
            return
        options: dict[str, str] = {**_spark_defaults(), **builder._options}
        for name, value in listener_properties(options, execution).items():
            builder.config(name, value)
    except Exception as error:  # noqa: BLE001 - a session must start even if capture fails
        record_error("Spark", error)


def listener_properties(options: Mapping[str, str], execution: Execution) -> dict[str, str]:
    """Return listener, parent and transport properties to set besides `options`; empty without the jar."""
    if not _is_configured(options):
        return {}
    properties = {
        **_parent_properties(options, execution),
        **_transport_properties(options, execution.session.session_id),
    }
    listeners = [name for name in str(options.get(_LISTENERS, "")).split(",") if name]
    if LISTENER not in listeners:
        properties[_LISTENERS] = ",".join((*listeners, LISTENER))
    return properties


def _parent_properties(options: Mapping[str, str], execution: Execution) -> dict[str, str]:
    """Return the cell as parent and the session as root; none if the user set any of them, since a mix is invalid."""
    if any(name.startswith(_PARENT_PREFIXES) for name in options):
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
    values = [str(options.get(name, "")) for name in _JAR_OPTIONS]
    if any(_JAR in value for value in (*values, os.environ.get("PYSPARK_SUBMIT_ARGS", ""))):
        return True
    return any((_spark_home() / "jars").glob(f"{_JAR}*.jar"))


def _spark_defaults() -> dict[str, str]:
    """Read spark-defaults.conf, which only the JVM reads otherwise."""
    folder = os.environ.get("SPARK_CONF_DIR") or _spark_home() / "conf"
    try:
        lines = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = [re.split(r"[\s=:]+", line.strip(), maxsplit=1) for line in lines]
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2 and pair[0].startswith("spark.")}


def _spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(sys.modules["pyspark"].__file__ or "").parent)


def _transport_properties(options: Mapping[str, str], session_id: str) -> dict[str, str]:
    """Return a file transport next to the event files, unless the user configured a transport."""
    if any(name.startswith(_TRANSPORT_PREFIX) for name in options):
        return {}
    folder = streams_folder(session_id)
    folder.mkdir(parents=True, exist_ok=True)
    if is_worker_enabled() and find_endpoint() is not None:
        # Before the JVM starts: its first events may precede the worker.
        init_delivery_state(folder)
    return {f"{_TRANSPORT_PREFIX}type": "file", f"{_TRANSPORT_PREFIX}location": str(folder / SPARK)}
