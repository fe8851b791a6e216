"""The caretaker beside a stream: does what is due, says what it could not do, and never fails the stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from clew.data_dir import DataDir
from clew.eventlog.segments import end_position
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.lake import Lake
from clew.pipeline.ingest import IngestStats
from clew.pipeline.maintenance import BackgroundMaintenance, MaintenanceConfig, MaintenanceStats

Take = Callable[..., IngestStats]
ENOUGH = 4


@pytest.fixture
def fill(home: DataDir, take: Take) -> Callable[[int], None]:
    """Takes in so many batches of one event each."""

    def filled(count: int) -> None:
        for _ in range(count):
            start = end_position(home.log)
            event = {"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": f"run at {start}"}}
            with LogWriter(home.log) as log:
                log.append([IncomingEvent(Stream.OPENLINEAGE, "test", json.dumps(event).encode())])
            take(start)

    return filled


def caretaker(home: DataDir, **care: Any) -> BackgroundMaintenance:
    return BackgroundMaintenance(
        home.lake, lambda _: True, lambda _: None, MaintenanceConfig(compaction_trigger_files=ENOUGH, **care)
    )


def test_files_are_merged_when_so_many_are_new(home: DataDir, fill: Callable[[int], None]) -> None:
    keeper = caretaker(home)
    found = []
    for count in (ENOUGH - 1, 1, ENOUGH - 1, 1):
        fill(count)
        keeper.compact_and_vacuum()
        found.append((keeper.stats.compactions, len(Lake(home.lake).files("lineage_events"))))
    assert found == [(0, 3), (1, 1), (1, 4), (2, 1)]
    assert Lake(home.lake).row_counts()["lineage_events"] == 2 * ENOUGH


@pytest.mark.parametrize(
    ("care", "done"),
    [
        ({}, MaintenanceStats()),
        ({"refresh_interval_seconds": 0.0}, MaintenanceStats(refreshes=1)),
        ({"vacuum_interval_seconds": 0.0}, MaintenanceStats(vacuums=1)),
    ],
)
def test_what_is_due_is_done(
    care: dict[str, float], done: MaintenanceStats, home: DataDir, fill: Callable[[int], None]
) -> None:
    fill(1)
    keeper = caretaker(home, **care)
    keeper.compact_and_vacuum()
    keeper.refresh_if_due()
    assert keeper.stats == done
    assert Lake(home.lake).row_counts()["lineage_events"] == 1


def test_a_long_refresh_is_not_done_again_at_once(home: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def refresh(_: Lake) -> bool:
        nonlocal now
        now += 60
        return True

    keeper = BackgroundMaintenance(home.lake, refresh, lambda _: None, MaintenanceConfig(refresh_interval_seconds=1))
    counts = []
    for moment in (2, 70, 60 + 60 / 0.05 - 1, 60 + 60 / 0.05 + 3):
        now = moment
        keeper.refresh_if_due()
        counts.append(keeper.stats.refreshes)
    assert counts == [1, 1, 1, 2]


@pytest.mark.parametrize(("keep_log", "asked"), [(None, []), (timedelta(days=30), [timedelta(days=30)])])
def test_the_log_is_kept_short_if_it_is_told_to(
    keep_log: timedelta | None, asked: list[timedelta], home: DataDir
) -> None:
    dropped: list[timedelta] = []
    care = MaintenanceConfig(vacuum_interval_seconds=0.0, log_retention=keep_log)
    BackgroundMaintenance(
        home.lake, lambda _: True, lambda _: None, care, expire_log=dropped.append
    ).compact_and_vacuum()
    assert dropped == asked


def test_a_fault_is_said_and_stays_with_the_caretaker(home: DataDir) -> None:
    said, is_said = [], Event()

    def refresh(_: Lake) -> bool:
        raise RuntimeError("no room")

    def say(text: str) -> None:
        said.append(text)
        is_said.set()

    with BackgroundMaintenance(
        home.lake, refresh, say, MaintenanceConfig(poll_interval_seconds=0.0, refresh_interval_seconds=0.0)
    ) as keeper:
        assert is_said.wait(30)
    assert said == ["Maintenance failed; ingestion continues: no room"]
    assert keeper.stats.errors == 1
