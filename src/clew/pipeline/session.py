"""The Spark session and its configuration."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pyspark.sql import SparkSession

from clew.errors import ClewError
from clew.home import DataDir
from clew.lake.storage import open_storage
from clew.pipeline.daemon import EVENT_WORKER_ENV
from clew.pipeline.interruptions import defer_keyboard_interrupt
from clew.pipeline.java import environment, find_java
from clew.pipeline.source import LogSource
from clew.pipeline.spark_home import spark_home_without_zip

# Measured on two cores: serial GC and the first compiler tier halve the start-up time; most work is done in Python.
# With one tier the JVM reserves 48 MB of code cache, which three refreshes of derived tables fill; it then stops
# compiling. A free heap ratio of 30 % instead of 70 % saves 70 MB in a refresh for 2 % more JVM CPU. A young generation
# of 128 MB instead of a third of the heap saves another 70 MB at the same speed.
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=30 -XX:MaxNewSize=128m -XX:TieredStopAtLevel=1"
    " -XX:ReservedCodeCacheSize=192m -Xss4m -Djava.net.preferIPv4Stack=true"
)

# Environment variables for S3.
_AWS_PREFIX = "AWS_"

LOCAL_CONF: Mapping[str, str] = {
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Unused without a UI. By default Spark retains 1,000 plans, which fill half of the heap; the JVM then spends half
    # of its time in garbage collection.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    # Records the call site of each column by two stack traces per call: a third of the time to build a plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Both pay off on large data only; on batches of some thousand events they cost more than they save.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.files.maxPartitionBytes": "32m",
    # The plans of all derived tables generate some 800 classes, reused by the next refresh.
    "spark.sql.codegen.cache.maxEntries": "2000",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    # Internal option: limits batches by bytes, so that 10 MB events fit.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    # Sufficient history to restart a streaming query of one source.
    "spark.sql.streaming.minBatchesToRetain": "20",
    "spark.sql.streaming.metricsEnabled": "false",
    # The default starts four processes per checkpoint file to check for symlinks: a quarter of the JVM's work for a
    # batch. This one renames files atomically as well.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Batches must not wait for a refresh of derived tables, which runs in a separate pool.
    "spark.scheduler.mode": "FAIR",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "clew.pipeline.daemon",
    "spark.log.structuredLogging.enabled": "false",
}


def build_session(
    *, master: str = "local[2]", conf: Mapping[str, str] | None = None, launcher_dir: Path | None = None
) -> SparkSession:
    """Start Spark or reuse the active session; `conf` overrides LOCAL_CONF."""
    _prepare_environment(launcher_dir)
    # Only Spark's Arrow code is used, which does not depend on the version of pandas.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    settings = {**LOCAL_CONF, "spark.driver.extraJavaOptions": _java_options(), **(conf or {})}
    builder = SparkSession.builder.appName("clew").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        # An interrupted launcher of Spark would leave a JVM running.
        with spark_home_without_zip(), defer_keyboard_interrupt():
            session = builder.getOrCreate()
    except Exception as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        message = f"Spark did not start: {first_line}"
        raise ClewError(
            message, hint="Try CLEW_JAVA=bundled with 'clew[java]' installed, or another --master."
        ) from error
    _register_source(session)
    # Otherwise Spark computes the call site of each RDD from a stack trace. Inherited by threads.
    for kind in ("short", "long"):
        session.sparkContext.setLocalProperty(f"callSite.{kind}", "clew")
    return session


def get_session(
    home: DataDir, spark: SparkSession | None = None, *, master: str = "local[2]", conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the given session or a new one, with the AWS_* variables in the environment of its workers if needed."""
    session = spark or build_session(master=master, conf=conf, launcher_dir=home.root / "java")
    if not open_storage(home.lake).is_local:
        aws_variables = {name: value for name, value in os.environ.items() if name.startswith(_AWS_PREFIX)}
        session.sparkContext.environment.update(aws_variables)
    return session


def _prepare_environment(launcher_dir: Path | None) -> None:
    os.environ.update(environment(find_java(launcher_dir)))
    # Workers must use this Python: the `python3` of the PATH lacks our packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # For workers and the JVM: share freed memory between tasks instead of growing several pools.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    # Otherwise numpy starts one idle thread per core in every Python process.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _register_source(session: SparkSession) -> None:
    """Register the log data source with a worker pool separate from that of all other functions."""
    environment = session.sparkContext.environment
    environment.pop(EVENT_WORKER_ENV, None)
    session.dataSource.register(LogSource)
    environment[EVENT_WORKER_ENV] = "1"


def _java_options() -> str:
    return f"{_JAVA_OPTIONS} -Dlog4j2.configurationFile={files('clew.pipeline') / 'log4j2.properties'}"
