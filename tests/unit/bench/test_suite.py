"""Tests of the program that runs all benchmarks."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.report import NOT_RUN
from bench.suite import list_measures, run_measure


def test_lists_all_benchmarks() -> None:
    measures = list_measures()
    assert {"capture", "pipeline", "storage"} <= set(measures)
    assert measures == sorted(measures)


def test_unknown_benchmark_is_an_error() -> None:
    command = [sys.executable, "-m", "bench.suite", "--only", "capture,nothing"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "no benchmark named nothing; there are big_events, capture," in result.stderr


def test_a_benchmark_ends_when_the_time_is_up() -> None:
    assert run_measure("storage", 1_000, time.monotonic()).exit_code == NOT_RUN
    # Less than the interpreter needs to start.
    run = run_measure("storage", 1_000, time.monotonic() + 0.001)
    assert (run.exit_code, run.measure) == (NOT_RUN, "storage")
