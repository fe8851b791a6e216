"""Entry point for spark-submit, and for a Spark session that exists already, as on Databricks.

`spark-submit OPTIONS submit.py pipeline run --home DIR --lake URL` runs `clew pipeline run` with the master and the
settings of spark-submit. `python -m clew.pipeline.submit --path` prints the path of this file.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path


def run_clew(arguments: Sequence[str]) -> None:
    """Run a `clew` command with the master of the running Spark, and exit with its code."""
    master = _running_master()
    if master is not None:
        os.environ["CLEW_MASTER"] = master
    sys.argv = ["clew", *arguments]
    # The package of the command line is above this one.
    runpy.run_module("clew", run_name="__main__")


def _running_master() -> str | None:
    """Return the master of the active session, or the one that spark-submit was called with; None without Spark."""
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        return session.sparkContext.master
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    # Connects to the JVM that spark-submit has started.
    SparkContext._ensure_initialized()  # noqa: SLF001
    return SparkConf().get("spark.master")


def main() -> None:
    """Run the command of the arguments; with `--path`, print the path of this file instead."""
    # Run as a script: the modules of this folder must not hide others of the same name.
    folder = str(Path(__file__).parent)
    sys.path[:] = [path for path in sys.path if path != folder]
    if sys.argv[1:] == ["--path"]:
        sys.stdout.write(f"{Path(__file__).resolve()}\n")
        return
    run_clew(sys.argv[1:])


if __name__ == "__main__":
    main()
