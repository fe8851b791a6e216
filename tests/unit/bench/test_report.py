"""Tests of the report of the benchmarks."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import msgspec
import pytest
from bench.figures import Baseline, Figure
from bench.machine import LoadMeter, Machine, describe_machine
from bench.report import BenchReport, MeasureRun, format_report, write_report
from bench.rounds import FULL_RUN_EVENTS

MACHINE = Machine("CPU", 2, 8.0, "Linux 6", "3.11", "17", {"pyspark": "4.2.0"}, "abc123")
FIGURES = [
    Figure(
        "size", FULL_RUN_EVENTS, "bytes", 750, 1_500, is_maximum=True, unit=" bytes", baseline=Baseline("raw", 3_000)
    ),
    Figure("speed", FULL_RUN_EVENTS, "a | b", 2, 4, is_maximum=False, unit="×", low=1.5, high=2.5, cpu_ratio=1.9),
    Figure("speed", FULL_RUN_EVENTS, "b / c", 3, None, is_maximum=False, unit="×"),
]
RUNS = [MeasureRun("size", 60, 0, 0.02), MeasureRun("speed", 30, 1, 0.9)]


def make_report(events: int = FULL_RUN_EVENTS) -> BenchReport:
    return BenchReport("2026-01-01 00:00 UTC", events, MACHINE, RUNS, FIGURES)


def test_report_has_figures_machine_and_runs() -> None:
    lines = format_report(make_report()).splitlines()
    assert "1 of 2 targets were met." in lines
    first, second, third = [line.partition("</a>")[2] for line in lines if "<a id=" in line]
    assert first == "size | bytes | 750 bytes |  | raw: 3,000 bytes (0.25×) |  | ≤ 1,500 bytes | met |"
    assert second == "speed | a \\| b | 2× | 1.50 to 2.50 |  | 1.90 | ≥ 4× | MISSED |"
    assert third == "speed | b / c | 3× |  |  |  |  |  |"
    assert "2 cores of CPU, 8.0 GB of memory, Linux 6," in lines
    assert "| size | 60 s | 0.02 |  |" in lines
    assert "| speed | 30 s | 0.90 (disturbed) | failed with exit code 1 |" in lines
    assert "| total | 90 s |  |  |" in lines


def test_report_names_a_small_run() -> None:
    assert "a run of 1,000 events; the targets are set for 100,000" in format_report(make_report(1_000))


@pytest.mark.parametrize(
    ("value", "target", "is_maximum", "margin"),
    [(750, 1_500, True, 2), (2, 4, False, 0.5), (0, 0, True, 1), (0, 5, True, float("inf"))],
)
def test_margin(value: float, target: float, is_maximum: bool, margin: float) -> None:
    assert Figure("m", 1, "n", value, target, is_maximum, "").margin == margin


def test_writes_the_same_files_for_the_same_figures(tmp_path: Path) -> None:
    for folder in ("first", "second"):
        write_report(make_report(), tmp_path / folder)
    names = {path.name for path in (tmp_path / "first").iterdir()}
    assert names == {"report.md", "report.json", "report.svg"}
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    assert msgspec.json.decode((tmp_path / "first" / "report.json").read_bytes(), type=BenchReport) == make_report()
    assert "size: bytes" in (tmp_path / "first" / "report.svg").read_text()


def test_describes_this_machine() -> None:
    machine = describe_machine()
    assert machine.cores >= 1
    assert machine.memory_gb > 0
    assert machine.libraries["pyspark"] == metadata.version("pyspark")


def test_load_of_others_is_a_number_of_cores() -> None:
    load = LoadMeter()
    sum(range(10_000_000))
    assert 0 <= load.other_load() <= (os.cpu_count() or 1)
