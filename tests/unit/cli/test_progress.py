"""Tests of the progress display on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from clew.cli.progress import BarProgress, LineProgress, Throughput


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "done", "total", "events", "text"),
    [
        (2.0, 50, 100, 1_000, "1,000 events, 500 events/s, 2.0 s left"),
        (2.0, 100, 100, 1, "1 event, 0 events/s"),
        (2.0, 0, 100, 0, "0 events, 0 events/s"),
        (60.0, 1, 101, 60, "60 events, 1 events/s, 100 min 0 s left"),
    ],
)
def test_throughput_format(seconds: float, done: int, total: int, events: int, text: str) -> None:
    clock = Clock()
    throughput = Throughput(clock)
    clock.now = seconds
    assert throughput.format(done, total, events) == text


def test_line_progress_prints_line_every_five_seconds() -> None:
    output, clock = io.StringIO(), Clock()
    progress = LineProgress(Console(file=output, width=200), clock)
    progress("Reading events")
    for second in range(1, 13):
        clock.now = second
        progress.step(second, 20, 100 * second)
    assert output.getvalue().splitlines() == [
        "Reading events …",
        "Reading events: 25 %, 500 events, 100 events/s, 15.0 s left",
        "Reading events: 50 %, 1,000 events, 100 events/s, 10.0 s left",
    ]


def test_bar_is_shown_once_total_is_known() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=120, _environ={"TERM": "xterm"})
    with Progress(*BarProgress.columns(), console=console, auto_refresh=False) as display:
        progress = BarProgress(display)
        progress("Reading [events]")
        display.refresh()
        assert "━" not in output.getvalue()
        progress.step(50, 100, 1_234)
        display.refresh()
    assert "Reading [events] …" in output.getvalue()
    assert "━" in output.getvalue()
    assert "1,234 events" in output.getvalue()
