"""Tests of benchmark figures and the summary table."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.figures import Baseline, Figure, Report, format_table, read_figures
from bench.rounds import FULL_RUN_EVENTS, RunSize


def make_figure(value: float, target: float, *, is_maximum: bool) -> Figure:
    return Figure("measure", FULL_RUN_EVENTS, "name", value, target, is_maximum, " s", baseline=Baseline("plain", 2))


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


@pytest.mark.parametrize(("events", "expected"), [(100_000, 160), (10_000, 16), (100, 8), (200_000, 320)])
def test_scales_with_the_run_size(events: int, expected: int) -> None:
    assert RunSize(events).scale(160, minimum=8) == expected


def test_summary_has_the_last_value_of_each_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "figures.jsonl"
    raw = Baseline("raw events", 6_000)
    Report("size", RunSize(1_000), path).check_max("bytes", 1_600, 1_500, " bytes", baseline=raw)
    Report("size", RunSize(), path).check_max("bytes", 1_400, 1_500, " bytes", baseline=raw)
    Report("speed", RunSize(1_000), path).check_min("ratio", 0.5, 0.65, cpu_ratio=0.7)
    Report("speed", RunSize(), path).compare("a / b", 3, "×", rounds=[2, 4])
    assert capsys.readouterr().out.splitlines() == [
        "  bytes: 1,600 bytes, target ≤ 1,500 bytes: MISSED; raw events: 6,000 bytes (0.27×)",
        "  bytes: 1,400 bytes, target ≤ 1,500 bytes: met; raw events: 6,000 bytes (0.23×)",
        "  ratio: 0.50, target ≥ 0.65: MISSED; CPU ratio 0.70",
        "  a / b: 3×",
    ]
    first, *others = format_table(read_figures(path)).splitlines()[2:]
    assert first.startswith(
        '| <a id="size-bytes"></a>size | bytes | 1,400 bytes |  | raw events: 6,000 bytes (0.23×) |'
    )
    assert first.endswith(" |  | ≤ 1,500 bytes | met |")
    assert others == [
        '| <a id="speed-ratio"></a>speed | ratio | 0.50 |  |  | 0.70 | ≥ 0.65 | MISSED (1,000 events) |',
        '| <a id="speed-a-b"></a>speed | a / b | 3× | 2 to 4 |  |  |  |  |',
    ]


def test_a_value_that_is_not_a_ratio_needs_a_baseline(tmp_path: Path) -> None:
    report = Report("size", RunSize(), tmp_path / "figures.jsonl")
    with pytest.raises(ValueError, match="The figure “bytes” in bytes has no baseline"):
        report.check_max("bytes", 1_600, 1_500, " bytes")


def test_reads_no_figures_from_a_missing_file(tmp_path: Path) -> None:
    assert read_figures(tmp_path / "none") == []
