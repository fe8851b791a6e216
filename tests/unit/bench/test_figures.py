"""Figures against their bars, and the table that is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.figures import Figure, Report, kept_figures, table_of
from bench.rounds import Round


def figure(value: float, bar: float, *, is_ceiling: bool) -> Figure:
    return Figure("measure", 200_000, "what", value, bar, is_ceiling, " s")


@pytest.mark.parametrize(
    ("value", "bar", "is_ceiling", "verdict"),
    [
        (0.65, 0.65, False, "met"),
        (0.649, 0.65, False, "MISSED"),
        (1.5, 1.5, True, "met"),
        (1.501, 1.5, True, "MISSED"),
    ],
)
def test_a_bar_is_met_or_missed(value: float, bar: float, is_ceiling: bool, verdict: str) -> None:
    assert figure(value, bar, is_ceiling=is_ceiling).verdict == verdict


@pytest.mark.parametrize(("events", "share"), [(200_000, 160), (20_000, 16), (100, 8), (400_000, 320)])
def test_a_smaller_round_does_less_of_everything(events: int, share: int) -> None:
    assert Round(events).share(160, at_least=8) == share


def test_the_summary_has_the_last_of_each_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "figures.jsonl"
    Report("size", Round(1_000), kept).at_most("bytes", 1_600, 1_500, " bytes")
    Report("size", Round(), kept).at_most("bytes", 1_400, 1_500, " bytes")
    Report("speed", Round(1_000), kept).at_least("ratio", 0.5, 0.65)
    assert capsys.readouterr().out.splitlines() == [
        "  bytes: 1,600 bytes, bar ≤ 1,500 bytes: MISSED",
        "  bytes: 1,400 bytes, bar ≤ 1,500 bytes: met",
        "  ratio: 0.50, bar ≥ 0.65: MISSED",
    ]
    assert table_of(kept_figures(kept)).splitlines()[2:] == [
        "| size | bytes | 1,400 bytes | ≤ 1,500 bytes | met |",
        "| speed | ratio | 0.50 | ≥ 0.65 | MISSED (1,000 events) |",
    ]


def test_nothing_was_measured_yet(tmp_path: Path) -> None:
    assert kept_figures(tmp_path / "none") == []
