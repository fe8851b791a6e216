"""Description of the machine and the versions that a benchmark ran with, and the load of other processes."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

from bench.costs import TICKS_PER_SECOND, cpu_seconds
from msgspec import Struct

from clew.pipeline.spark.java import find_java

_LIBRARIES = ("clew", "pyspark", "deltalake", "pyarrow", "msgspec", "pandas", "polars", "duckdb", "marimo")
_IDLE_FIELDS = slice(3, 5)


class Machine(Struct, frozen=True):
    """Machine and versions."""

    cpu: str
    cores: int
    memory_gb: float
    system: str
    python: str
    java: str
    libraries: dict[str, str]
    commit: str


def describe_machine() -> Machine:
    """Describe this machine."""
    return Machine(
        cpu=_read_field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        cores=len(os.sched_getaffinity(0)),
        memory_gb=round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        java=find_java().version,
        libraries={name: metadata.version(name) for name in _LIBRARIES},
        commit=_git("describe", "--always", "--dirty"),
    )


class LoadMeter:
    """CPU that processes outside this process tree use, in cores."""

    def __init__(self) -> None:
        self._busy, self._idle, self._own = _machine_seconds()

    def other_load(self) -> float:
        """Mean number of cores that other processes kept busy since the start."""
        busy, idle, own = _machine_seconds()
        busy, idle, own = busy - self._busy, idle - self._idle, own - self._own
        seconds = (busy + idle) / (os.cpu_count() or 1)
        return max(0.0, busy - own) / seconds if seconds else 0.0


def _machine_seconds() -> tuple[float, float, float]:
    # user, nice, system, idle, iowait, irq, softirq, steal. Steal is time of other machines on the same host.
    ticks = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = sum(ticks[_IDLE_FIELDS])
    return (sum(ticks) - idle) / TICKS_PER_SECOND, idle / TICKS_PER_SECOND, cpu_seconds()


def _read_field(path: Path, name: str) -> str:
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _git(*command: str) -> str:
    result = subprocess.run(["git", *command], capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"
