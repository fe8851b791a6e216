"""Tests of the progress reporter."""

from __future__ import annotations

from clew.progress import ProgressReporter


def test_reports_every_five_seconds() -> None:
    messages: list[str] = []
    now = [100.0]
    reporter = ProgressReporter(messages.append, "Deriving", "tables", lambda: now[0])
    for done, second in enumerate((101.0, 106.0, 107.0, 112.0, 113.0), 1):
        now[0] = second
        reporter(done, 6)
    assert messages == ["Deriving", "Deriving: 2 of 6 tables done", "Deriving: 4 of 6 tables done"]


def test_does_not_report_the_end() -> None:
    messages: list[str] = []
    now = [0.0]
    reporter = ProgressReporter(messages.append, "Deriving", "tables", lambda: now[0])
    now[0] = 60.0
    reporter(6, 6)
    assert messages == ["Deriving"]
