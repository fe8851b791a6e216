"""What was received too long ago is gone everywhere: all is as if the log had never held more than is left of it."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import Record, append, event, record, run

from clew.cli.main import cli
from clew.data_dir import DataDir
from clew.eventlog.segments import list_segments
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.schemas import DERIVED_TABLE_NAMES, EVENT_TABLE_NAMES

# The second run begins before the cutoff and ends after it, and rejected events stand on both sides.
OLD = [*map(event, range(5)), b"no event"]
YOUNG = [*map(event, range(5, 9)), b"neither"]
BYTES_PER_TRIGGER = 1 << 20


class At:
    """A clock that stands still."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self, _: object) -> datetime:
        return self._moment


def receive(home: DataDir, bodies: list[bytes], days_ago: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take events into the log as if it were then, each in a segment of its own."""
    with monkeypatch.context() as then, LogWriter(home.log, segment_bytes=1) as log:
        then.setattr("clew.eventlog.writer.datetime", At(datetime.now(UTC) - timedelta(days=days_ago)))
        for body in bodies:
            log.append([IncomingEvent(Stream.OPENLINEAGE, "test", body)])


def test_old_events_are_gone_everywhere_and_stay_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = DataDir(tmp_path / "home")
    receive(home, OLD, 100, monkeypatch)
    receive(home, YOUNG, 80, monkeypatch)
    run(home, spark, BYTES_PER_TRIGGER)
    all_segments = list_segments(home.log)
    arguments = ["pipeline", "compact", "--drop-older-than", "90d", "--json", "--home", str(home.root)]
    done = json.loads(CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout)
    assert (done["expired"]["deleted_rows"]["lineage_events"], done["expired"]["deleted_rows"]["rejected_events"]) == (
        5,
        1,
    )
    assert list_segments(home.log) == all_segments[len(OLD) :]

    left = record(home)
    assert set(left) >= {*EVENT_TABLE_NAMES, *DERIVED_TABLE_NAMES, "index.facets", "index.runs"}
    assert left == taken_anew(home, tmp_path / "anew", spark)

    run(home, spark, BYTES_PER_TRIGGER)
    assert record(home) == left

    append(home, event(9))
    run(home, spark, BYTES_PER_TRIGGER, is_derived=False)
    assert len(record(home)["lineage_events"]) == len(left["lineage_events"]) + 1


def taken_anew(home: DataDir, root: Path, spark: SparkSession) -> Record:
    """All that follows from what is left of the log."""
    other = DataDir(root)
    shutil.copytree(home.log, other.log)
    run(other, spark, BYTES_PER_TRIGGER)
    return record(other)
