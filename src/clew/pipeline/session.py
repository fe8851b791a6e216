"""The one place that builds a Spark session."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pyspark.sql import SparkSession

from clew.errors import ClewError
from clew.home import Home
from clew.lake.storage import storage_at
from clew.pipeline.daemon import MOVES_EVENTS
from clew.pipeline.interruptions import interruptions_held
from clew.pipeline.java import environment, find_java
from clew.pipeline.source import LogSource
from clew.pipeline.spark_home import without_zip

# Measured on two cores: serial GC and the first compiler tier start in half the time, and the work is Python's anyway.
# With one tier the JVM reserves 48 MB for compiled code: three refreshes of derived tables fill it, and it compiles
# no more. At most 30 % of the heap stay free, in place of 70: 70 MB less in a refresh, at 2 % more of the JVM's CPU.
# What is new gets 128 MB of it, in place of a third: 70 MB less again, and as fast.
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=30 -XX:MaxNewSize=128m -XX:TieredStopAtLevel=1"
    " -XX:ReservedCodeCacheSize=192m -Xss4m -Djava.net.preferIPv4Stack=true"
)

# Variables that say how to reach a bucket.
_OF_BUCKETS = "AWS_"

LAPTOP: Mapping[str, str] = {
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Without a UI nobody looks at these. A thousand plans, as Spark keeps them, fill half of the heap, and then the JVM
    # spends half of its time on collecting garbage.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    # Notes for error messages where in the program each column was made, by two stack traces a call: a third of the
    # work of building a plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Both pay on large data only; on batches of some thousand events they cost more than they save.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.files.maxPartitionBytes": "32m",
    # The plans of all derived tables make some 800 classes; a second refresh then finds them.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    # Internal, but honoured: a batch is cut by bytes, so that 10 MB events fit.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    # A streaming query of one file source needs no more history than this to start again.
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.metricsEnabled": "false",
    # The default starts four processes for each file of a checkpoint, to ask whether it is a link, which with others
    # are a quarter of what the JVM does for a batch. This one renames files just the same.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # A stream's batches must not wait behind a refresh of derived tables, which has a pool of its own.
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "clew.pipeline.daemon",
    "spark.log.structuredLogging.enabled": "false",
}


def build_session(
    *, master: str = "local[2]", conf: Mapping[str, str] | None = None, launchers: Path | None = None
) -> SparkSession:
    """Start Spark, or take the session that runs; `conf` overrides the laptop's settings."""
    _prepare_environment(launchers)
    # Only Spark's Arrow paths are used here, and those do not care for the version of pandas.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    settings = {**LAPTOP, "spark.driver.extraJavaOptions": _java_options(), **(conf or {})}
    builder = SparkSession.builder.appName("clew").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        # Spark's launcher, when it is interrupted, leaves a JVM behind that never ends.
        with without_zip(), interruptions_held():
            session = builder.getOrCreate()
    except Exception as fault:
        first_line = str(fault).strip().splitlines()[0] if str(fault).strip() else type(fault).__name__
        message = f"Spark did not start: {first_line}"
        raise ClewError(
            message, hint="Try CLEW_JAVA=bundled with 'clew[java]' installed, or another --master."
        ) from fault
    _register_source(session)
    # Else Spark looks for the line of Java that made each RDD, by a stack trace a time. Threads inherit it.
    for form in ("short", "long"):
        session.sparkContext.setLocalProperty(f"callSite.{form}", "clew")
    return session


def session_for(
    home: Home, spark: SparkSession | None = None, *, master: str = "local[2]", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The session that is given, or a new one; its workers know all that they need to reach the home's lake."""
    session = spark or build_session(master=master, conf=conf, launchers=home.root / "java")
    if not storage_at(home.lake).is_local:
        known = {name: value for name, value in os.environ.items() if name.startswith(_OF_BUCKETS)}
        session.sparkContext.environment.update(known)
    return session


def _prepare_environment(launchers: Path | None) -> None:
    os.environ.update(environment(find_java(launchers)))
    # Workers must be this Python: the `python3` of the PATH lacks our packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # For workers, and the JVM: memory that one task has let go of serves the next, in place of pools that each grow.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    # Else numpy starts a thread for each core in every Python process, which then look for work that never comes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _register_source(session: SparkSession) -> None:
    """Let workers that name ranges of the log be other processes than those that all later functions run in."""
    environment = session.sparkContext.environment
    environment.pop(MOVES_EVENTS, None)
    session.dataSource.register(LogSource)
    environment[MOVES_EVENTS] = "1"


def _java_options() -> str:
    return f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={files('clew.pipeline') / 'log4j2.properties'}"
