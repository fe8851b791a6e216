"""Tests of background maintenance."""

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

IngestLog = Callable[..., IngestStats]
TRIGGER_FILES = 4


@pytest.fixture
def add_batches(home: DataDir, ingest_log: IngestLog) -> Callable[[int], None]:
    """Return a function that ingests a number of batches of one event each."""

    def add(count: int) -> None:
        for _ in range(count):
            start = end_position(home.log)
            event = {
                "eventTime": "2026-01-01T10:00:00Z",
                "run": {"runId": f"run at {start}"},
                "job": {"namespace": "n", "name": "j"},
            }
            with LogWriter(home.log) as log:
                log.append([IncomingEvent(Stream.OPENLINEAGE, "test", json.dumps(event).encode())])
            ingest_log(start)

    return add


def create_maintenance(home: DataDir, **config: Any) -> BackgroundMaintenance:
    return BackgroundMaintenance(
        home.lake, lambda _: True, lambda _: None, MaintenanceConfig(compaction_trigger_files=TRIGGER_FILES, **config)
    )


def test_compacts_after_enough_new_files(home: DataDir, add_batches: Callable[[int], None]) -> None:
    maintenance = create_maintenance(home)
    compactions_and_files = []
    for count in (TRIGGER_FILES - 1, 1, TRIGGER_FILES - 1, 1):
        add_batches(count)
        maintenance.compact_and_vacuum()
        compactions_and_files.append((maintenance.stats.compactions, len(Lake(home.lake).files("lineage_events"))))
    assert compactions_and_files == [(0, 3), (1, 1), (1, 4), (2, 1)]
    assert Lake(home.lake).row_counts()["lineage_events"] == 2 * TRIGGER_FILES


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, MaintenanceStats()),
        ({"refresh_interval_seconds": 0.0}, MaintenanceStats(refreshes=1)),
        ({"vacuum_interval_seconds": 0.0}, MaintenanceStats(vacuums=1)),
    ],
)
def test_runs_due_tasks(
    config: dict[str, float], expected: MaintenanceStats, home: DataDir, add_batches: Callable[[int], None]
) -> None:
    add_batches(1)
    maintenance = create_maintenance(home, **config)
    maintenance.compact_and_vacuum()
    maintenance.refresh_if_due()
    assert maintenance.stats == expected
    assert Lake(home.lake).row_counts()["lineage_events"] == 1


def test_limits_the_share_of_time_spent_on_refreshes(home: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)

    def refresh(_: Lake) -> bool:
        nonlocal now
        now += 60
        return True

    maintenance = BackgroundMaintenance(
        home.lake, refresh, lambda _: None, MaintenanceConfig(refresh_interval_seconds=1)
    )
    counts = []
    for second in (2, 70, 60 + 60 / 0.05 - 1, 60 + 60 / 0.05 + 3):
        now = second
        maintenance.refresh_if_due()
        counts.append(maintenance.stats.refreshes)
    assert counts == [1, 1, 1, 2]


@pytest.mark.parametrize(("log_retention", "expected"), [(None, []), (timedelta(days=30), [timedelta(days=30)])])
def test_expires_the_log_if_configured(
    log_retention: timedelta | None, expected: list[timedelta], home: DataDir
) -> None:
    calls: list[timedelta] = []
    config = MaintenanceConfig(vacuum_interval_seconds=0.0, log_retention=log_retention)
    BackgroundMaintenance(
        home.lake, lambda _: True, lambda _: None, config, expire_log=calls.append
    ).compact_and_vacuum()
    assert calls == expected


def test_reports_an_error_and_continues(home: DataDir) -> None:
    messages, has_message = [], Event()

    def refresh(_: Lake) -> bool:
        raise RuntimeError("no room")

    def report(message: str) -> None:
        messages.append(message)
        has_message.set()

    with BackgroundMaintenance(
        home.lake, refresh, report, MaintenanceConfig(poll_interval_seconds=0.0, refresh_interval_seconds=0.0)
    ) as maintenance:
        assert has_message.wait(30)
    assert messages == ["Maintenance failed; ingestion continues: no room"]
    assert maintenance.stats.errors == 1
