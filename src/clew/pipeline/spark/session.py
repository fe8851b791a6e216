"""SparkSession: settings, tuning for small lakes, warm-up, error translation, interrupts."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.storage import open_storage
from clew.pipeline.sources import log_source
from clew.pipeline.sources.log_source import LogSource
from clew.pipeline.spark.cluster import (
    apply_cluster_defaults,
    check_executors,
    is_local_master,
    register_source,
    validate_master,
)
from clew.pipeline.spark.dataframes import write_events
from clew.pipeline.spark.java import environment, find_java, temporary_folder
from clew.pipeline.workers import EventTask, read_log_events
from clew.progress import ProgressCallback, no_progress

_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
# Measured on a lake of 200 events: all derived tables in 24 CPU-seconds instead of 54.
_SMALL_DATA_CONF: Final = {
    _SHUFFLE_PARTITIONS: "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
# Sorting two partitions of a gigabyte at once spills so often that the buffers of the spill files fill the heap.
_BYTES_PER_PARTITION: Final = 256 << 20


@contextmanager
def tuned_for_size(spark: SparkSession, size: int, *, is_small: bool) -> Iterator[None]:
    """Apply the settings for data derived from events of this size in bytes, and restore the previous ones."""
    partitions = max(int(spark.conf.get(_SHUFFLE_PARTITIONS) or 1), size // _BYTES_PER_PARTITION)
    settings = _SMALL_DATA_CONF if is_small else {_SHUFFLE_PARTITIONS: str(partitions)}
    before = {key: spark.conf.get(key) for key in settings}
    for key in before:
        spark.conf.set(key, settings[key])
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value or "")


_MAX_WORKERS = 8
_EVENT = b'{"eventTime": "2026-01-01T00:00:00Z", "run": {"runId": "%d", "facets": {"a": {}}}}'


def warm_up(spark: SparkSession) -> None:
    """Ingest one event per core into a temporary folder. Only in local mode."""
    if not is_local_master(spark.sparkContext.master):
        return
    with TemporaryDirectory(prefix="clew-") as folder:
        log, lake = Path(folder, "log"), Path(folder, "lake")
        # One event per segment, and one task per segment.
        with LogWriter(log, segment_bytes=1) as writer:
            for number in range(min(spark.sparkContext.defaultParallelism, _MAX_WORKERS)):
                writer.append([IncomingEvent(Stream.OPENLINEAGE, "clew", _EVENT % number)])
        ranges = spark.read.format(log_source.FORMAT_NAME).load(str(log))
        write_events(ranges, EventTask(str(lake), read_log_events))


@contextmanager
def defer_keyboard_interrupt() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block; a second one interrupts at once. Custom handlers are not replaced."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    is_interrupted = False

    def defer(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            raise KeyboardInterrupt
        is_interrupted = True

    signal.signal(signal.SIGINT, defer)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is defer:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if is_interrupted:
        raise KeyboardInterrupt


_VARIABLE: Final = "SPARK_HOME"
# Folders that the launcher needs; the zip is in `python`.
_FOLDERS: Final = ("bin", "conf", "jars")


@contextmanager
def spark_home_without_zip() -> Iterator[None]:
    """Set SPARK_HOME to a folder without the zip while Spark is started, unless it is set already."""
    folder = None if _VARIABLE in os.environ else _symlinked_spark_home()
    if folder is None:
        yield
        return
    os.environ[_VARIABLE] = str(folder)
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


# The JVM opens jars lazily, so the folder must exist as long as the process.
@cache
def _symlinked_spark_home() -> Path | None:
    """Create the folder of symlinks; None if symlinks are not possible."""
    installed, folder = Path(pyspark.__file__).parent, temporary_folder("spark")
    try:
        for name in _FOLDERS:
            if (installed / name).is_dir():
                (folder / name).symlink_to(installed / name, target_is_directory=True)
    except OSError:
        return None
    return folder


# Measured on two cores: serial GC and the first compiler tier halve the start-up time; most work is done in Python.
# With one tier the JVM reserves 48 MB of code cache, which three refreshes of derived tables fill; it then stops
# compiling. A free heap ratio of 30 % instead of 70 % saves 70 MB in a refresh for 2 % more JVM CPU. A young generation
# of 128 MB instead of a third of the heap saves another 70 MB at the same speed.
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=30 -XX:MaxNewSize=128m -XX:TieredStopAtLevel=1"
    " -XX:ReservedCodeCacheSize=192m -Xss4m -Djava.net.preferIPv4Stack=true"
)

# Environment variables for buckets.
_BUCKET_VARIABLES: Final = ("AWS_", "AZURE_", "AZURITE_", "GOOGLE_")

# For each master. Other settings of a cluster are those of its administrator and of --conf.
_COMMON_CONF: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # Records the call site of each column by two stack traces per call: a third of the time to build a plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
    # The default starts four processes per checkpoint file to check for symlinks: a quarter of the JVM's work for a
    # batch. This one renames files atomically as well.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Batches must not wait for a refresh of derived tables, which runs in a separate pool.
    "spark.scheduler.mode": "FAIR",
    "spark.log.structuredLogging.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# The profile of one small machine.
LOCAL_CONF: Mapping[str, str] = {
    **_COMMON_CONF,
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Unused without a UI. By default Spark retains 1,000 plans, which fill half of the heap; the JVM then spends half
    # of its time in garbage collection.
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    _SHUFFLE_PARTITIONS: "2",
    # Saves 2 MB of heap per spill file while these are merged.
    "spark.unsafe.sorter.spill.read.ahead.enabled": "false",
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
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "clew.pipeline.spark.worker_daemon",
}


_STOPPED_CONTEXT: Final = "Cannot call methods on a stopped SparkContext"
# Set by spark-submit, whose JVM is running.
_GATEWAY_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"


def build_session(
    *, master: str = "local[2]", conf: Mapping[str, str] | None = None, launcher_dir: Path | None = None
) -> SparkSession:
    """Start Spark or reuse the active session; `conf` overrides the profile of the master."""
    is_local, conf = is_local_master(master), conf or {}
    validate_master(master)
    _prepare_environment(launcher_dir, conf, is_local=is_local)
    # Only Spark's Arrow code is used, which does not depend on the version of pandas.
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
    profile = LOCAL_CONF if is_local else _COMMON_CONF
    settings = {**profile, "spark.driver.extraJavaOptions": _java_options(is_local=is_local), **conf}
    builder = SparkSession.builder.appName("clew").master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        # An interrupted launcher of Spark would leave a JVM running.
        with spark_home_without_zip(), defer_keyboard_interrupt():
            session = builder.getOrCreate()
    except Exception as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if _STOPPED_CONTEXT in str(error):
            first_line = f"{master} ended the application: it has no resources for it, or its executors do not start"
        message = f"Spark did not start: {first_line}"
        raise ClewError(
            message, hint="Try CLEW_JAVA=bundled with 'clew[java]' installed, or another --master."
        ) from error
    if not is_local:
        apply_cluster_defaults(session)
        session.sparkContext.environment.update(_WORKER_VARIABLES)
    register_source(session, LogSource)
    # Otherwise Spark computes the call site of each RDD from a stack trace. Inherited by threads.
    for kind in ("short", "long"):
        session.sparkContext.setLocalProperty(f"callSite.{kind}", "clew")
    return session


def get_session(
    home: DataDir,
    spark: SparkSession | None = None,
    *,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
    needs_log: bool = False,
    on_progress: ProgressCallback = no_progress,
) -> SparkSession:
    """Return the given session or a new one, whose workers can use the lake, and the log if `needs_log`."""
    session = spark or build_session(master=master, conf=conf, launcher_dir=home.root / "java")
    if not open_storage(home.lake).is_local:
        variables = {name: value for name, value in os.environ.items() if name.startswith(_BUCKET_VARIABLES)}
        session.sparkContext.environment.update(variables)
    with translate_spark_errors():
        check_executors(session, home, needs_log=needs_log, on_progress=on_progress)
    return session


# For workers and the JVM: share freed memory between tasks instead of growing several pools; and without an idle thread
# of numpy per core in every Python process.
_WORKER_VARIABLES: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    "OPENBLAS_NUM_THREADS": "1",
}


def _prepare_environment(launcher_dir: Path | None, conf: Mapping[str, str], *, is_local: bool) -> None:
    if _GATEWAY_VARIABLE not in os.environ and SparkSession.getActiveSession() is None:
        os.environ.update(environment(find_java(launcher_dir)))
    if is_local:
        # Workers must use this Python: the `python3` of the PATH lacks our packages.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python") or sys.executable)
    for name, value in _WORKER_VARIABLES.items():
        os.environ.setdefault(name, value)


def _java_options(*, is_local: bool) -> str:
    logging = f"-Dlog4j2.configurationFile={files('clew.pipeline') / 'log4j2.properties'}"
    return f"{_JAVA_OPTIONS} {logging}" if is_local else logging


_WORKER_EXITED: Final = "Python worker exited unexpectedly"
_WORKER_KILLED: Final = f"{_WORKER_EXITED}. The system may have killed it because of low memory."
_STACK_FRAME_PREFIXES: Final = ("at ", "... ")

RETRY_HINT: Final = "No data was lost. Fix the cause and run the command again: it resumes where it stopped."


@contextmanager
def translate_spark_errors() -> Iterator[None]:
    """Raise errors of Spark as ClewError with a hint."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise ClewError(f"The pipeline stopped: {root_cause(str(error))}", hint=RETRY_HINT) from error


def root_cause(text: str) -> str:
    """Extract the root cause from a Python-in-JVM stack trace."""
    # The state of the query follows, not the cause.
    trace, _, _ = text.partition("=== Streaming Query ===")
    lines = [line.strip() for line in trace.splitlines()]
    lines = [line for line in lines if line and not line.startswith(_STACK_FRAME_PREFIXES)]
    errors = [line for line in lines if "Error" in line]
    if not errors and _WORKER_EXITED in trace:
        return _WORKER_KILLED
    return (errors or lines or ["unknown"])[-1][:500]
