"""Tests of the maintenance command."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.support.lake import mark_refreshed

from clew.data_dir import DataDir
from clew.errors import ClewError, UsageError
from clew.eventlog.segments import end_position
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.lake import Lake
from clew.pipeline.ingest import IngestStats
from clew.pipeline.locks import acquire_lock
from clew.pipeline.maintenance import run_maintenance
from clew.pipeline.status import read_status

IngestLog = Callable[..., IngestStats]
WEEK_HOURS = 7 * 24
JOB = {"namespace": "n", "name": "j"}


@pytest.fixture
def filled_home(home: DataDir, ingest_log: IngestLog) -> DataDir:
    """Create a data directory with three batches of one event each, and up-to-date derived tables."""
    for number in range(3):
        start = end_position(home.log)
        event = {"eventTime": f"2026-01-01T10:00:0{number}Z", "run": {"runId": "r"}, "job": JOB}
        with LogWriter(home.log) as log:
            log.append([IncomingEvent(Stream.OPENLINEAGE, "test", json.dumps(event).encode())])
        ingest_log(start)
    lake = Lake(home.lake)
    mark_refreshed(lake)
    return home


def test_compacts_and_retains_a_week_of_versions(filled_home: DataDir) -> None:
    result = run_maintenance(filled_home, WEEK_HOURS)
    assert result.compacted["lineage_events"] == (3, 1)
    assert set(result.vacuumed.values()) == {(0, 0)}
    assert {"lineage_events", "runs", "state_runs"} <= set(result.vacuumed)
    assert (result.is_refreshed, result.is_refresh_deferred) == (False, False)


def test_forced_vacuum_retains_only_the_newest_version(filled_home: DataDir) -> None:
    result = run_maintenance(filled_home, 0, is_forced=True)
    assert result.vacuumed["lineage_events"][0] == 3
    assert len(list((filled_home.lake_folder / "lineage_events").glob("*.parquet"))) == 1
    assert {table.name: table.rows for table in read_status(filled_home).tables}["lineage_events"] == 3


def test_compacts_but_defers_the_refresh_while_a_pipeline_runs(filled_home: DataDir, ingest_log: IngestLog) -> None:
    with LogWriter(filled_home.log) as log:
        event = json.dumps({"eventTime": "2026-01-01T10:00:09Z", "run": {"runId": "other"}, "job": JOB}).encode()
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", event)])
    ingest_log()
    with acquire_lock(filled_home.lake / ".lock"):
        result = run_maintenance(filled_home, WEEK_HOURS)
    assert result.compacted["lineage_events"] == (4, 1)
    assert (result.is_refreshed, result.is_refresh_deferred) == (False, True)


def test_rejects_a_forced_vacuum_while_a_pipeline_runs(filled_home: DataDir) -> None:
    before = sorted(filled_home.lake_folder.rglob("*.*"))
    with (
        acquire_lock(filled_home.lake / ".lock"),
        pytest.raises(ClewError, match=r"A pipeline is running .* would be deleted"),
    ):
        run_maintenance(filled_home, 0, is_forced=True)
    assert sorted(set(filled_home.lake_folder.rglob("*.*")) - {filled_home.lake_folder / ".lock"}) == before


@pytest.mark.parametrize(
    ("hours", "is_forced", "message"),
    [(0, False, "may delete files that a running query reads"), (23, False, "add --force"), (-1, True, "is not valid")],
)
def test_rejects_an_unsafe_retention(filled_home: DataDir, hours: int, is_forced: bool, message: str) -> None:
    before = sorted(filled_home.lake_folder.rglob("*"))
    with pytest.raises(UsageError, match=message):
        run_maintenance(filled_home, hours, is_forced=is_forced)
    assert sorted(filled_home.lake_folder.rglob("*")) == before
