"""Upkeep as a command does it: what it refuses, and what it leaves to a pipeline at work."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from clew.data_dir import DataDir
from clew.errors import ClewError, UsageError
from clew.eventlog.segments import end_position
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.lake import Lake
from clew.lake.schemas import DERIVED_TABLE_NAMES, RUN_FACETS
from clew.pipeline.ingest import IngestStats
from clew.pipeline.locks import acquire_lock
from clew.pipeline.maintenance import run_maintenance
from clew.pipeline.status import read_status

Take = Callable[..., IngestStats]
WEEK = 7 * 24


@pytest.fixture
def filled(home: DataDir, take: Take) -> DataDir:
    """Three batches of an event each, and derived tables that follow from them."""
    for number in range(3):
        start = end_position(home.log)
        event = {"eventTime": f"2026-01-01T10:00:0{number}Z", "run": {"runId": "r"}}
        with LogWriter(home.log) as log:
            log.append([IncomingEvent(Stream.OPENLINEAGE, "test", json.dumps(event).encode())])
        take(start)
    lake = Lake(home.lake)
    for name in DERIVED_TABLE_NAMES:
        lake.replace(name, RUN_FACETS.schema, [], lake.source_fingerprint())
    return home


def test_files_are_merged_and_a_week_of_versions_kept(filled: DataDir) -> None:
    done = run_maintenance(filled, WEEK)
    assert done.compacted["lineage_events"] == (3, 1)
    assert set(done.vacuumed.values()) == {(0, 0)}
    assert (done.is_refreshed, done.is_refresh_deferred) == (False, False)


def test_forced_nothing_but_the_newest_version_is_kept(filled: DataDir) -> None:
    done = run_maintenance(filled, 0, is_forced=True)
    assert done.vacuumed["lineage_events"][0] == 3
    assert len(list((filled.lake_folder / "lineage_events").glob("*.parquet"))) == 1
    assert {table.name: table.rows for table in read_status(filled).tables}["lineage_events"] == 3


def test_beside_a_pipeline_it_merges_and_leaves_derived_tables_to_it(filled: DataDir, take: Take) -> None:
    with LogWriter(filled.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b"no event")])
    take()
    with acquire_lock(filled.lake / ".lock"):
        done = run_maintenance(filled, WEEK)
    assert done.compacted["lineage_events"] == (3, 1)
    assert (done.is_refreshed, done.is_refresh_deferred) == (False, True)


def test_beside_a_pipeline_young_files_are_not_removed(filled: DataDir) -> None:
    before = sorted(filled.lake_folder.rglob("*.*"))
    with (
        acquire_lock(filled.lake / ".lock"),
        pytest.raises(ClewError, match=r"A pipeline is running .* would be deleted"),
    ):
        run_maintenance(filled, 0, is_forced=True)
    assert sorted(set(filled.lake_folder.rglob("*.*")) - {filled.lake_folder / ".lock"}) == before


@pytest.mark.parametrize(
    ("hours", "is_forced", "sentence"),
    [(0, False, "may delete files that a running query reads"), (23, False, "add --force"), (-1, True, "is not valid")],
)
def test_a_retention_that_is_refused(filled: DataDir, hours: int, is_forced: bool, sentence: str) -> None:
    before = sorted(filled.lake_folder.rglob("*"))
    with pytest.raises(UsageError, match=sentence):
        run_maintenance(filled, hours, is_forced=is_forced)
    assert sorted(filled.lake_folder.rglob("*")) == before
