"""How far a piece of work is, on a terminal and elsewhere."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.progress import Progress

from clew.cli.progress import Bar, Lines, Pace


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "done", "total", "events", "words"),
    [
        (2.0, 50, 100, 1_000, "1,000 events, 500 events/s, 2.0 s left"),
        (2.0, 100, 100, 1, "1 event, 0 events/s"),
        (2.0, 0, 100, 0, "0 events, 0 events/s"),
        (60.0, 1, 101, 60, "60 events, 1 events/s, 100 min 0 s left"),
    ],
)
def test_a_pace_in_words(seconds: float, done: int, total: int, events: int, words: str) -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.now = seconds
    assert pace.words(done, total, events) == words


def test_lines_come_now_and_then() -> None:
    written, clock = io.StringIO(), Clock()
    tell = Lines(Console(file=written, width=200), clock)
    tell("Reading events")
    for second in range(1, 13):
        clock.now = second
        tell.step(second, 20, 100 * second)
    assert written.getvalue().splitlines() == [
        "Reading events …",
        "Reading events: 25 %, 500 events, 100 events/s, 15.0 s left",
        "Reading events: 50 %, 1,000 events, 100 events/s, 10.0 s left",
    ]


def test_a_bar_is_shown_once_its_length_is_known() -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120, _environ={"TERM": "xterm"})
    with Progress(*Bar.columns(), console=console, auto_refresh=False) as shown:
        tell = Bar(shown)
        tell("Reading [events]")
        shown.refresh()
        assert "━" not in written.getvalue()
        tell.step(50, 100, 1_234)
        shown.refresh()
    assert "Reading [events] …" in written.getvalue()
    assert "━" in written.getvalue()
    assert "1,234 events" in written.getvalue()
