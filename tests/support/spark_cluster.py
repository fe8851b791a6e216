"""Spark standalone cluster of separate processes.

Each worker has its own working directory and, where the system allows it, its own mount namespace, in which the private
folder of the driver is empty: nothing is shared by accident.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from clew.pipeline.spark.java import find_java

_VARIABLES = {
    "SPARK_LOCAL_IP": "127.0.0.1",
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.net.preferIPv4Stack=true",
}


@dataclass
class SparkCluster:
    """A running cluster. `private` is empty for its workers, `shared` is the same folder for all."""

    folder: Path
    master: str = ""
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def private(self) -> Path:
        return self.folder / "private"

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    def kill_worker(self, number: int) -> None:
        """Kill a worker with its executors and their Python processes."""
        os.killpg(self.workers[number].pid, signal.SIGKILL)


def can_isolate_mounts() -> bool:
    """Return whether a process can be started in its own mount namespace."""
    command = ["unshare", "-m", "true"]
    return (
        shutil.which("unshare") is not None and not subprocess.run(command, capture_output=True, check=False).returncode
    )


@contextmanager
def start_cluster(
    folder: Path, workers: int = 2, cores: int = 1, env: Mapping[str, str] | None = None
) -> Iterator[SparkCluster]:
    """Start a master and workers with one executor each."""
    cluster = SparkCluster(folder)
    for path in (cluster.private, cluster.shared):
        path.mkdir(parents=True)
    with ExitStack() as stack:
        master = _start(
            stack, folder / "master", "master.Master", ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"], env
        )
        cluster.master = _wait_for(master, r"spark://127\.0\.0\.1:\d+")
        for number in range(workers):
            work = folder / f"worker-{number}" / "work"
            options = ["--host", "127.0.0.1", "-c", str(cores), "-m", "1g", "--webui-port", "0"]
            options += ["--work-dir", str(work), cluster.master]
            hidden = cluster.private if can_isolate_mounts() else None
            worker = _start(stack, folder / f"worker-{number}", "worker.Worker", options, env, hidden)
            cluster.workers.append(worker)
        for worker in cluster.workers:
            _wait_for(worker, "Successfully registered with master")
        yield cluster


def _start(
    stack: ExitStack,
    folder: Path,
    name: str,
    options: Sequence[str],
    env: Mapping[str, str] | None,
    hidden: Path | None = None,
) -> subprocess.Popen[str]:
    folder.mkdir()
    java_home = find_java(folder).home
    spark_home = Path(pyspark.__file__).parent
    command = [str(spark_home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *options]
    if hidden is not None:
        script = f"mount -t tmpfs none {shlex.quote(str(hidden))} && exec {shlex.join(command)}"
        command = ["unshare", "-m", "sh", "-c", script]
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    variables = {**inherited, **_VARIABLES, "JAVA_HOME": str(java_home), "SPARK_HOME": str(spark_home)}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**variables, **(env or {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    stack.callback(_stop, process)
    return process


def _stop(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


def _wait_for(process: subprocess.Popen[str], pattern: str) -> str:
    """Read the log of a process until a line matches; later lines are drained by a thread."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        match = re.search(pattern, line)
        if match is not None and "INFO" in line and "Connecting" not in line:
            threading.Thread(target=_drain, args=(process,), daemon=True).start()
            return match[0]
    raise AssertionError("".join(lines[-30:]))


def _drain(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    try:
        for _ in process.stderr:
            pass
    except ValueError:
        # Closed.
        return
