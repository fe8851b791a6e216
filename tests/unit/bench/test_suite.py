"""Tests of the program that runs all benchmarks."""

from __future__ import annotations

import subprocess
import sys

from bench.suite import list_measures


def test_lists_all_benchmarks() -> None:
    measures = list_measures()
    assert {"capture", "pipeline", "storage"} <= set(measures)
    assert measures == sorted(measures)


def test_unknown_benchmark_is_an_error() -> None:
    command = [sys.executable, "-m", "bench.suite", "--only", "capture,nothing"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "no benchmark named nothing; there are big_events, capture," in result.stderr
