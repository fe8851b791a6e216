"""Benchmark: size and time of installing clew with all extras into a new environment, from the package cache.

The packages are downloaded into the cache by a first installation, which is not measured. PySpark alone is the
reference, because clew cannot be smaller.

python -m bench.measure_install [EVENTS]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.costs import TICKS_PER_SECOND, cpu_seconds
from bench.figures import Baseline, Report
from bench.rounds import parse_run_size, scratch_folder

_ROOT = Path(__file__).parent.parent
_PYSPARK = "pyspark==4.2.0"


@dataclass(frozen=True)
class Installation:
    """Wall and CPU seconds, and size in MB."""

    wall: float
    cpu: float
    megabytes: float


def main() -> None:
    """Print the figures."""
    report = Report("install", parse_run_size(__doc__))
    with scratch_folder() as folder:
        _run("uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), str(_ROOT))
        (wheel,) = folder.glob("clew-*.whl")
        # The first one fills the cache.
        _, clew = (install(f"{wheel}[all]", folder) for _ in range(2))
        pyspark, base = install(_PYSPARK, folder), install(str(wheel), folder)
    report.check_max(
        "clew[all], size of the environment",
        clew.megabytes,
        1_500,
        " MB",
        baseline=Baseline("PySpark alone", pyspark.megabytes),
    )
    report.check_max(
        "clew[all], time to install from the cache",
        clew.wall,
        60,
        " s",
        baseline=Baseline("PySpark alone", pyspark.wall),
        cpu_ratio=clew.cpu / max(pyspark.cpu, 1 / TICKS_PER_SECOND),
    )
    report.check_max(
        "clew without extras (capture), size of the environment",
        base.megabytes,
        30,
        " MB",
        baseline=Baseline("PySpark alone", pyspark.megabytes),
    )


def install(requirement: str, folder: Path) -> Installation:
    """Install a requirement into a new environment, and remove the environment."""
    environment = folder / "environment"
    _run("uv", "venv", "--quiet", "--python", sys.executable, str(environment))
    start, cpu = time.perf_counter(), cpu_seconds()
    # As pip does it: the files are copied, and modules are compiled.
    options = ("--quiet", "--link-mode", "copy", "--compile-bytecode")
    _run("uv", "pip", "install", *options, "--python", str(environment / "bin" / "python"), requirement)
    wall, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    megabytes = sum(path.lstat().st_size for path in environment.rglob("*")) / 1e6
    shutil.rmtree(environment)
    return Installation(wall, cpu, megabytes)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
