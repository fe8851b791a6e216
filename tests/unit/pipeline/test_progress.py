from __future__ import annotations

from clew.pipeline.progress import ProgressReporter


def test_headway_is_told_every_few_seconds() -> None:
    said: list[str] = []
    now = [100.0]
    headway = ProgressReporter(said.append, "Deriving", "tables", lambda: now[0])
    for done, second in enumerate((101.0, 106.0, 107.0, 112.0, 113.0), 1):
        now[0] = second
        headway(done, 6)
    assert said == ["Deriving", "Deriving: 2 of 6 tables done", "Deriving: 4 of 6 tables done"]


def test_the_end_needs_no_words() -> None:
    said: list[str] = []
    now = [0.0]
    headway = ProgressReporter(said.append, "Deriving", "tables", lambda: now[0])
    now[0] = 60.0
    headway(6, 6)
    assert said == ["Deriving"]
