"""Tests that expired events are removed from lake, index and log."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import TableRows, append_events, make_event, read_tables, run_pipeline

from clew.cli.main import cli
from clew.data_dir import DataDir
from clew.eventlog.segments import list_segments
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.schemas import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES

# The second run starts before the cutoff and ends after it; rejected events are on both sides.
OLD = [*map(make_event, range(5)), b"no event"]
YOUNG = [*map(make_event, range(5, 9)), b"neither"]
BYTES_PER_TRIGGER = 1 << 20


class FixedClock:
    """Clock with a fixed time."""

    def __init__(self, now: datetime) -> None:
        self._moment = now

    def now(self, _: object) -> datetime:
        return self._moment


def append_received(home: DataDir, bodies: list[bytes], days_ago: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Append events as if received some days ago, each in a separate segment."""
    with monkeypatch.context() as patch, LogWriter(home.log, segment_bytes=1) as log:
        patch.setattr("clew.eventlog.writer.datetime", FixedClock(datetime.now(UTC) - timedelta(days=days_ago)))
        for body in bodies:
            log.append([IncomingEvent(Stream.OPENLINEAGE, "test", body)])


def test_removes_old_events_permanently(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = DataDir(tmp_path / "home")
    append_received(home, OLD, 100, monkeypatch)
    append_received(home, YOUNG, 80, monkeypatch)
    run_pipeline(home, spark, BYTES_PER_TRIGGER)
    all_segments = list_segments(home.log)
    arguments = ["pipeline", "compact", "--drop-older-than", "90d", "--json", "--home", str(home.root)]
    result = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
    assert (
        result["expired"]["deleted_rows"]["lineage_events"],
        result["expired"]["deleted_rows"]["rejected_events"],
    ) == (
        5,
        1,
    )
    assert list_segments(home.log) == all_segments[len(OLD) :]

    remaining = read_tables(home)
    assert set(remaining) >= {*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES, "index.facets", "index.runs"}
    assert remaining == ingest_remaining_log(home, tmp_path / "reference", spark)

    run_pipeline(home, spark, BYTES_PER_TRIGGER)
    assert read_tables(home) == remaining

    append_events(home, make_event(9))
    run_pipeline(home, spark, BYTES_PER_TRIGGER, is_derived=False)
    assert len(read_tables(home)["lineage_events"]) == len(remaining["lineage_events"]) + 1


def ingest_remaining_log(home: DataDir, root: Path, spark: SparkSession) -> TableRows:
    """Ingest the remaining log into a new data directory, and read its rows."""
    reference = DataDir(root)
    shutil.copytree(home.log, reference.log)
    run_pipeline(reference, spark, BYTES_PER_TRIGGER)
    return read_tables(reference)
