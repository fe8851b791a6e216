"""Spark on several machines: masters, settings, and the check of all executors before work starts."""

from __future__ import annotations

import re
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

import msgspec
from msgspec import Struct
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

import clew
from clew import __version__
from clew.data_dir import DataDir
from clew.errors import ClewError, UsageError
from clew.lake.lake import WORKER_REPORTS_DIR
from clew.lake.storage import Storage, open_storage
from clew.pipeline.spark.application import SparkApplication, remove_application, write_application
from clew.progress import ProgressCallback, no_progress

_CONNECT_SCHEME: Final = "sc://"
_STANDALONE_SCHEME: Final = "spark://"
_CONNECT_SECONDS = 5.0


def is_local_master(master: str | None) -> bool:
    """Return whether driver and executors are one process."""
    return (master or "local").startswith("local") and not (master or "").startswith("local-cluster")


def validate_master(master: str) -> None:
    """Raise if the pipeline cannot run on this master, or if the standalone master cannot be reached."""
    if master.startswith(_CONNECT_SCHEME):
        hint = (
            "A server of Spark Connect runs the function of each batch in its own process, without the lock and the"
            " index of the pipeline. Pass the master that the server uses, or run clew with spark-submit."
        )
        raise UsageError(f"The master {master} is a Spark Connect server, which clew does not support.", hint=hint)
    if not master.startswith(_STANDALONE_SCHEME):
        return
    reasons = [_connection_error(address) for address in master.removeprefix(_STANDALONE_SCHEME).split(",")]
    if None not in reasons:
        # Spark itself would try for a minute.
        message = f"The Spark master {master} cannot be reached: {', '.join(map(str, reasons))}."
        raise ClewError(message, hint="Start it, or pass its URL with --master.")


def _connection_error(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return f"{address!r} is not HOST:PORT"
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except OSError as error:
        return f"{address}: {error.strerror or error}"
    return None


# Set unless the user, spark-submit or the cluster's spark-defaults.conf does.
CLUSTER_SQL_DEFAULTS: Final = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    # Internal option: limits batches by bytes, so that 10 MB events fit.
    "spark.sql.execution.arrow.maxBytesPerBatch": "8m",
    "spark.sql.streaming.minBatchesToRetain": "20",
}


def register_source(session: SparkSession, source: type[DataSource]) -> None:
    """Register a data source.

    Spark plans its reads in a Python process of the driver, which does not find packages of `--py-files`.
    """
    environment, archive = session.sparkContext.environment, Path(clew.__file__).parents[1]
    variables = {"PYTHONPATH": str(archive)} if archive.is_file() else {}
    environment.update(variables)
    session.dataSource.register(source)
    for name in variables:
        del environment[name]


def apply_cluster_defaults(session: SparkSession) -> None:
    """Set the SQL settings of CLUSTER_SQL_DEFAULTS that nobody has set."""
    configured = session.sparkContext.getConf()
    for key, value in CLUSTER_SQL_DEFAULTS.items():
        if not configured.contains(key):
            session.conf.set(key, value)


def describe_application(session: SparkSession) -> SparkApplication:
    """Return master, id and executors of a session."""
    context = session.sparkContext
    is_local = is_local_master(context.master)
    return SparkApplication(
        context.master or "", context.applicationId or "", () if is_local else tuple(list_executors(session))
    )


def list_executors(session: SparkSession) -> list[str]:
    """List the registered executors as `host:port`."""
    jvm_context = session.sparkContext._jsc.sc()  # noqa: SLF001  # PySpark's tracker lacks the executors
    driver = jvm_context.env().blockManager().blockManagerId()
    addresses = {f"{info.host()}:{info.port()}" for info in jvm_context.statusTracker().getExecutorInfos()}
    return sorted(addresses - {f"{driver.host()}:{driver.port()}"})


_UPDATE_SECONDS = 10.0


class ApplicationRecorder:
    """Stores the executors of a session every few seconds, for `clew pipeline status`."""

    def __init__(self, home: DataDir, session: SparkSession) -> None:
        self._home = home
        self._session = session
        self._next = 0.0

    def __call__(self) -> None:
        """Store the executors, unless that was done recently."""
        if time.monotonic() >= self._next:
            write_application(self._home, describe_application(self._session))
            self._next = time.monotonic() + _UPDATE_SECONDS


@contextmanager
def record_application(home: DataDir, session: SparkSession) -> Iterator[None]:
    """Store the Spark application while a pipeline runs."""
    ApplicationRecorder(home, session)()
    try:
        yield
    finally:
        remove_application(home)


class ExecutorReport(Struct, frozen=True):
    """Result of the check in one task: who ran it, and why it cannot work, if so."""

    executor: str
    host: str
    python: str
    clew: str | None = None
    marker: str | None = None
    error: str | None = None
    # Part that cannot be used: `clew`, `log` or `lake`.
    part: str | None = None


_decode_report = msgspec.json.Decoder(ExecutorReport).decode
_MARKER_PREFIX: Final = "check-"
# Long enough that tasks are started on all executors.
_TASK_SECONDS = 0.3
_MAX_ROUNDS = 10
_POLL_SECONDS = 0.2
_EXECUTOR_WAIT_SECONDS = 120.0


def check_executors(
    session: SparkSession,
    home: DataDir,
    *,
    needs_log: bool,
    on_progress: ProgressCallback = no_progress,
    wait_seconds: float = _EXECUTOR_WAIT_SECONDS,
) -> None:
    """Raise unless all executors have this version of clew and see the files of the driver.

    An executor must read a marker of the driver in the log and in the lake, and write one to the lake that the driver
    reads and deletes. Executors that register later are not checked: their version is checked in each task, and their
    files before each commit.
    """
    if is_local_master(session.sparkContext.master):
        return
    on_progress("Checking the executors")
    token, reports = uuid.uuid4().hex, open_storage(home.lake / WORKER_REPORTS_DIR)
    checked: set[str] = set()
    with _driver_markers(home, reports, token, needs_log=needs_log) as log_marker:
        probe = _probe_function(str(home.lake / WORKER_REPORTS_DIR), log_marker, token, __version__, _TASK_SECONDS)
        for _ in range(_MAX_ROUNDS):
            found = _run_probe(session, probe, wait_seconds)
            _check_reports(home, reports, found, token)
            checked |= {report.executor for report in found}
            if len(checked) >= len(list_executors(session)):
                return
    on_progress(f"{len(checked)} of {len(list_executors(session))} executors are checked: the others were busy")


@contextmanager
def _driver_markers(home: DataDir, reports: Storage, token: str, *, needs_log: bool) -> Iterator[str | None]:
    """Write the markers of the driver, and remove all markers at the end; yield the path of the one in the log."""
    log_marker = home.log / f".{_MARKER_PREFIX}{token}" if needs_log else None
    try:
        reports.add(f"{_MARKER_PREFIX}{token}", token.encode())
        if log_marker is not None:
            home.log.mkdir(parents=True, exist_ok=True)
            log_marker.write_text(token)
        yield None if log_marker is None else str(log_marker)
    finally:
        if log_marker is not None:
            log_marker.unlink(missing_ok=True)
        for file in list(reports.list_files()):
            if file.name.startswith(f"{_MARKER_PREFIX}{token}"):
                with suppress(OSError):
                    reports.remove(file.name)


def check_shared_files(reports: str, log_marker: str | None, token: str) -> dict[str, str]:
    """Read the markers of the driver and write one to the lake, on an executor; return the fields of its report."""
    part = "log"
    try:
        if log_marker is not None and Path(log_marker).read_text() != token:
            return {"part": part, "error": "it is another folder"}
        part, storage, name = "lake", open_storage(reports), f"{_MARKER_PREFIX}{token}-{uuid.uuid4().hex}"
        if storage.read(f"{_MARKER_PREFIX}{token}") != token.encode():
            return {"part": part, "error": "a file that the driver wrote does not exist there"}
        storage.add(name, token.encode())
        if storage.read(name) != token.encode():
            return {"part": part, "error": "a file that the executor wrote cannot be read"}
    except OSError as error:
        return {"part": part, "error": error.strerror or str(error)}
    except ClewError as error:
        return {"part": part, "error": error.message.rstrip(".")}
    return {"marker": name}


def _probe_function(
    reports: str, log_marker: str | None, token: str, version: str, seconds: float
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function that checks an executor.

    It is nested, so that it is pickled by value: executors may have no clew, or another version.
    """

    def probe(batches: Iterator[Any]) -> Iterator[Any]:
        import json
        import os
        import platform
        import socket as sockets
        import time as clock

        import pyarrow as pa

        for _ in batches:
            pass
        clock.sleep(seconds)
        # The parent process is the executor, or its daemon.
        host = sockets.gethostname()
        report = {"executor": f"{host}/{os.getppid()}", "host": host, "python": platform.python_version()}
        try:
            import clew

            report["clew"] = getattr(clew, "__version__", "of an unknown version")
            if report["clew"] == version:
                from clew.pipeline.spark.cluster import check_shared_files as check

                report.update(check(reports, log_marker, token))
        except ImportError as error:
            report.update({"part": "clew", "error": str(error)})
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report)]})

    return probe


def _run_probe(session: SparkSession, probe: Any, wait_seconds: float) -> list[ExecutorReport]:
    """Run the check in as many tasks as there are cores; raise if no executor starts."""
    context, group = session.sparkContext, f"clew-check-{uuid.uuid4().hex}"
    count = max(context.defaultParallelism, 2 * len(list_executors(session)))
    result: list[list[ExecutorReport] | Exception] = []
    is_done = Event()

    def collect() -> None:
        try:
            context.setJobGroup(group, "clew", interruptOnCancel=True)
            rows = session.range(0, count, 1, count).mapInArrow(probe, "report string").collect()
            result.append([_decode_report(row["report"]) for row in rows])
        except Exception as error:  # noqa: BLE001  # raised by the caller
            result.append(error)
        finally:
            is_done.set()

    Thread(target=inheritable_thread_target(session)(collect), name="clew-check", daemon=True).start()
    deadline = time.monotonic() + wait_seconds
    while not is_done.wait(_POLL_SECONDS):
        if time.monotonic() < deadline or list_executors(session):
            continue
        context.cancelJobGroup(group)
        message = f"No executor of {context.master} was started in {wait_seconds:.0f} seconds."
        hint = (
            "Is a worker running, with enough free cores and memory? Reduce spark.executor.memory or"
            " spark.executor.cores with --conf, or set spark.driver.host to an address that the workers can reach."
        )
        raise ClewError(message, hint=hint)
    (reports,) = result
    if isinstance(reports, Exception):
        raise _translate_probe_error(reports) from reports
    return reports


# The first match is used; the pattern is searched in the stack trace.
_PROBE_ERRORS: Final = (
    (
        r"Cannot run program \"([^\"]+)\"",
        "The executors cannot run the Python {0}.",
        "Set PYSPARK_PYTHON to a Python that exists on all machines, with clew[spark] installed; see docs/cluster.md.",
    ),
    (
        r"PYTHON_VERSION_MISMATCH\][^\n]*?(\d+\.\d+)[^\n]*?(\d+\.\d+)",
        "The executors have Python {0}, the driver has Python {1}.",
        "Set PYSPARK_PYTHON to a Python of the same minor version on all machines.",
    ),
    (
        r"No module named '?([\w.]+)",
        "The Python of the executors has no module {0}.",
        "Install clew[spark] there, or ship an environment with --archives; see docs/cluster.md.",
    ),
)


def _translate_probe_error(error: Exception) -> Exception:
    """Return the user error for a failed check; the error itself if its cause is unknown."""
    for pattern, message, hint in _PROBE_ERRORS:
        match = re.search(pattern, str(error))
        if match is not None:
            return ClewError(message.format(*match.groups()), hint=hint)
    return error


_SHARE_LAKE: Final = (
    "Driver and executors must share the lake: put it in a bucket (--lake s3://BUCKET/PREFIX), or in a folder that is"
    " mounted at the same path on all machines."
)
_SHARE_LOG: Final = (
    "Driver and executors must share the event log: put the data directory (--home) in a folder that is mounted at the"
    " same path on all machines."
)
_INSTALL: Final = "Install the same version of clew on all machines, or ship an environment with --archives."


def _check_reports(home: DataDir, storage: Storage, reports: list[ExecutorReport], token: str) -> None:
    driver_python = sys.version_info[:2]
    for report in reports:
        where = f"The executor on {report.host}"
        if report.part == "clew":
            raise ClewError(f"{where} cannot import clew: {report.error}.", hint=_INSTALL)
        if report.clew != __version__:
            raise ClewError(f"{where} has clew {report.clew}, the driver has clew {__version__}.", hint=_INSTALL)
        if tuple(map(int, report.python.split(".")[:2])) != driver_python:
            version = ".".join(map(str, driver_python))
            raise ClewError(f"{where} has Python {report.python}, the driver has Python {version}.", hint=_INSTALL)
        if report.part == "log":
            raise ClewError(f"{where} cannot read the event log {home.log}: {report.error}.", hint=_SHARE_LOG)
        if report.error is not None:
            raise ClewError(f"{where} cannot use the lake {home.lake}: {report.error}.", hint=_SHARE_LAKE)
    first = {report.executor: report for report in reports}
    contents = storage.map_concurrently(storage.read, [str(report.marker) for report in first.values()])
    for report, content in zip(first.values(), contents, strict=True):
        if content != token.encode():
            message = (
                f"The driver does not see in the lake {home.lake} what the executor on {report.host} wrote: they have"
                " different folders at this path."
            )
            raise ClewError(message, hint=_SHARE_LAKE)
