"""Every benchmark runs on a tiny size and records its figures (`make test-bench`).

`make test` runs those that start no JVM and install nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from bench.report import BenchReport
from bench.suite import list_measures
from tests.support.paths import ROOT

EVENTS = 50
TIMEOUT_SECONDS = 600
WITH_JVM = set("big_events cluster freshness growth import kafka marquez pipeline storage textbook".split())
MARKS = {"install": pytest.mark.slow, "page": pytest.mark.browser}


def parametrize_measure(name: str) -> object:
    marks = [pytest.mark.spark] if name in WITH_JVM else [MARKS[name]] if name in MARKS else []
    return pytest.param(name, marks=marks)


@pytest.mark.timeout(TIMEOUT_SECONDS)
@pytest.mark.parametrize("measure", [parametrize_measure(name) for name in list_measures()])
def test_benchmark_runs(measure: str, tmp_path: Path) -> None:
    # Jars are downloaded once.
    (tmp_path / "jars").symlink_to(ROOT / "build" / "bench" / "jars")
    command = [sys.executable, "-m", "bench.suite", str(EVENTS), "--only", measure]
    environment = {**os.environ, "CLEW_BENCH_FOLDER": str(tmp_path)}
    environment.pop("MARQUEZ_URL", None)
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    report = msgspec.json.decode((tmp_path / "report.json").read_bytes(), type=BenchReport)
    assert {figure.measure for figure in report.figures} == {measure} - {"marquez"}
    assert all(figure.value >= 0 for figure in report.figures if "additional" not in figure.name)


def test_measures_with_a_jvm_exist() -> None:
    assert set(list_measures()) >= WITH_JVM
