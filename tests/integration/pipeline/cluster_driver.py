"""Driver of a pipeline on a cluster, in its own process: a JVM has one Spark context, and the tests' one is local.

Reads its parameters as JSON from the command line and prints its results as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.lake.lake import Lake
from clew.pipeline.locks import LockedError
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.spark.cluster import check_executors
from clew.pipeline.spark.session import build_session
from clew.pipeline.status import read_status


def error_of(session: SparkSession, home: DataDir) -> str:
    """Return the message with which a pipeline refuses to start."""
    try:
        with open_pipeline(home, spark=session):
            return "started"
    except ClewError as error:
        return str(error)


def copy_home(source: DataDir, target: DataDir) -> DataDir:
    shutil.copytree(source.log, target.log)
    return target


def python_error(session: SparkSession, home: DataDir, python: str) -> str:
    """Return the message of the check if the executors use another Python."""
    context = session.sparkContext
    usual, context.pythonExec = context.pythonExec, python
    try:
        check_executors(session, home, needs_log=False)
    except ClewError as error:
        return str(error)
    finally:
        context.pythonExec = usual
    return "passed"


def kill_during_a_task(session: SparkSession, worker: int, batches: list[int]) -> None:
    """Kill a worker, with its process group, while a task of the second batch is running."""
    tracker = session.sparkContext.statusTracker()
    while True:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()] if batches else []
        if any(stage is not None and stage.numActiveTasks for stage in stages):
            os.killpg(worker, signal.SIGKILL)
            return
        time.sleep(0.01)


def run(parameters: dict[str, Any]) -> dict[str, Any]:
    private, shared = Path(parameters["private"]), Path(parameters["shared"])
    source = DataDir(shared / "source")
    session = build_session(master=parameters["master"], conf={"spark.executor.memory": "600m"})
    home = copy_home(source, DataDir(shared / "home"))
    home.create()
    Lake(home.lake).create_or_validate()
    results: dict[str, Any] = {
        "private home": error_of(session, copy_home(source, DataDir(private / "home"))),
        "private lake": error_of(session, copy_home(source, DataDir(shared / "other", private / "lake"))),
        "other version": python_error(session, home, parameters["other_python"]),
        "no Python": python_error(session, home, "/missing/python3"),
    }
    batches: list[int] = []
    with open_pipeline(home, spark=session, listeners=(lambda batch: batches.append(batch.number),)) as pipeline:
        status = read_status(home)
        results["application"] = str(status.spark)
        results["executors"] = len(status.spark.executors) if status.spark else 0
        try:
            with open_pipeline(DataDir(shared / "second", shared / "home" / "lake"), spark=session):
                pass
        except LockedError as error:
            results["second writer"] = str(error)
        arguments = (session, parameters["worker"], batches)
        threading.Thread(target=kill_during_a_task, args=arguments, daemon=True).start()
        stats = replace(pipeline, bytes_per_trigger=parameters["bytes_per_trigger"]).run()
    results.update(events=stats.events, batches=stats.batches, status_after=str(read_status(home).spark))
    session.stop()
    return results


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(run(json.loads(sys.argv[1])))}\n")
