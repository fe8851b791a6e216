"""Tests of benchmark figures and the summary table."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.figures import Figure, Report, format_table, read_figures
from bench.rounds import RunSize


def make_figure(value: float, target: float, *, is_maximum: bool) -> Figure:
    return Figure("measure", 200_000, "name", value, target, is_maximum, " s")


@pytest.mark.parametrize(
    ("value", "target", "is_maximum", "verdict"),
    [
        (0.65, 0.65, False, "met"),
        (0.649, 0.65, False, "MISSED"),
        (1.5, 1.5, True, "met"),
        (1.501, 1.5, True, "MISSED"),
    ],
)
def test_verdict(value: float, target: float, is_maximum: bool, verdict: str) -> None:
    assert make_figure(value, target, is_maximum=is_maximum).verdict == verdict


@pytest.mark.parametrize(("events", "expected"), [(200_000, 160), (20_000, 16), (100, 8), (400_000, 320)])
def test_scales_with_the_run_size(events: int, expected: int) -> None:
    assert RunSize(events).scale(160, minimum=8) == expected


def test_summary_has_the_last_value_of_each_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.jsonl"
    Report("size", RunSize(1_000), path).check_max("bytes", 1_600, 1_500, " bytes")
    Report("size", RunSize(), path).check_max("bytes", 1_400, 1_500, " bytes")
    Report("speed", RunSize(1_000), path).check_min("ratio", 0.5, 0.65)
    assert capsys.readouterr().out.splitlines() == [
        "  bytes: 1,600 bytes, target ≤ 1,500 bytes: MISSED",
        "  bytes: 1,400 bytes, target ≤ 1,500 bytes: met",
        "  ratio: 0.50, target ≥ 0.65: MISSED",
    ]
    assert format_table(read_figures(path)).splitlines()[2:] == [
        "| size | bytes | 1,400 bytes |  | ≤ 1,500 bytes | met |",
        "| speed | ratio | 0.50 |  | ≥ 0.65 | MISSED (1,000 events) |",
    ]


def test_reads_no_figures_from_a_missing_file(tmp_path: Path) -> None:
    assert read_figures(tmp_path / "none") == []
