"""The caretaker beside a stream: does what is due, says what it could not do, and never fails the stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from clew.collector.log import LogWriter, Received
from clew.collector.segments import end_position
from clew.events.stream import Stream
from clew.home import Home
from clew.lake.delta import Lake
from clew.pipeline.caretaker import Care, Cared, Caretaker
from clew.pipeline.ingest import Ingested

Take = Callable[..., Ingested]
ENOUGH = 4


@pytest.fixture
def fill(home: Home, take: Take) -> Callable[[int], None]:
    """Takes in so many batches of one event each."""

    def filled(count: int) -> None:
        for _ in range(count):
            start = end_position(home.log)
            event = {"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": f"run at {start}"}}
            with LogWriter(home.log) as log:
                log.append([Received(Stream.OPENLINEAGE, "test", json.dumps(event).encode())])
            take(start)

    return filled


def caretaker(home: Home, **care: Any) -> Caretaker:
    return Caretaker(home.lake, lambda _: True, lambda _: None, Care(new_files=ENOUGH, **care))


def test_files_are_merged_when_so_many_are_new(home: Home, fill: Callable[[int], None]) -> None:
    keeper = caretaker(home)
    found = []
    for count in (ENOUGH - 1, 1, ENOUGH - 1, 1):
        fill(count)
        keeper.tidy()
        found.append((keeper.done.merges, len(Lake(home.lake).files("lineage_events"))))
    assert found == [(0, 3), (1, 1), (1, 4), (2, 1)]
    assert Lake(home.lake).row_counts()["lineage_events"] == 2 * ENOUGH


@pytest.mark.parametrize(
    ("care", "done"),
    [
        ({}, Cared()),
        ({"refresh_seconds": 0.0}, Cared(refreshes=1)),
        ({"removal_seconds": 0.0}, Cared(removals=1)),
    ],
)
def test_what_is_due_is_done(care: dict[str, float], done: Cared, home: Home, fill: Callable[[int], None]) -> None:
    fill(1)
    keeper = caretaker(home, **care)
    keeper.tidy()
    keeper.bring_up_to_date()
    assert keeper.done == done
    assert Lake(home.lake).row_counts()["lineage_events"] == 1


def test_a_long_refresh_is_not_done_again_at_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def refresh(_: Lake) -> bool:
        nonlocal now
        now += 60
        return True

    keeper = Caretaker(home.lake, refresh, lambda _: None, Care(refresh_seconds=1))
    counts = []
    for moment in (2, 70, 60 + 60 / 0.05 - 1, 60 + 60 / 0.05 + 3):
        now = moment
        keeper.bring_up_to_date()
        counts.append(keeper.done.refreshes)
    assert counts == [1, 1, 1, 2]


@pytest.mark.parametrize(("keep_log", "asked"), [(None, []), (timedelta(days=30), [timedelta(days=30)])])
def test_the_log_is_kept_short_if_it_is_told_to(keep_log: timedelta | None, asked: list[timedelta], home: Home) -> None:
    dropped: list[timedelta] = []
    care = Care(removal_seconds=0.0, keep_log=keep_log)
    Caretaker(home.lake, lambda _: True, lambda _: None, care, drop_log=dropped.append).tidy()
    assert dropped == asked


def test_a_fault_is_said_and_stays_with_the_caretaker(home: Home) -> None:
    said, is_said = [], Event()

    def refresh(_: Lake) -> bool:
        raise RuntimeError("no room")

    def say(text: str) -> None:
        said.append(text)
        is_said.set()

    with Caretaker(home.lake, refresh, say, Care(look_seconds=0.0, refresh_seconds=0.0)) as keeper:
        assert is_said.wait(30)
    assert said == ["Upkeep failed, events are taken in all the same: no room"]
    assert keeper.done.faults == 1
