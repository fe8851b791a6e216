"""What was received too long ago leaves lake, index and log; what comes afterwards goes on as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from clew.data_dir import DataDir
from clew.eventlog.retention import drop_segments
from clew.eventlog.segments import end_position, list_segments
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.compaction import compact_tables
from clew.lake.lake import Lake
from clew.lake.schemas import DERIVED_TABLE_NAMES, RUN_FACETS
from clew.pipeline import maintenance
from clew.pipeline.ingest import IngestStats
from clew.pipeline.locks import LockedError, acquire_lock
from clew.pipeline.maintenance import expire_events, expire_log_segments, run_maintenance

Take = Callable[..., IngestStats]
Receive = Callable[..., None]
LARGE = "x" * 100_000


@pytest.fixture
def receive(home: DataDir, take: Take) -> Receive:
    """Takes in an event that was received so many days ago, in a segment of its own."""

    def received(days: int, name: str) -> None:
        position = end_position(home.log)
        append(home, days, name)
        take(position)
        note_taken(home)

    return received


def append(home: DataDir, days: int, name: str) -> None:
    """Append an event that was received so many days ago, in a segment of its own."""
    facets = {"note": {"text": name}, "plan": {"text": LARGE}}
    event = {"eventTime": "2026-01-01T10:00:00Z", "run": {"runId": name, "facets": facets}}
    with pytest.MonkeyPatch.context() as then, LogWriter(home.log, segment_bytes=1) as log:
        then.setattr("clew.eventlog.writer.datetime", _At(datetime.now(UTC) - timedelta(days=days)))
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", json.dumps(event).encode())])


class _At:
    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self, _: object) -> datetime:
        return self._moment


def note_taken(home: DataDir) -> None:
    for name in ("offsets", "commits"):
        path = home.checkpoint / "log" / name / "0"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'v1\n{{}}\n{{"position":{end_position(home.log)}}}')


def runs(home: DataDir, table: str = "lineage_events") -> list[str]:
    found = Lake(home.lake).table(table)
    assert found is not None
    return sorted(found.to_pyarrow_table()["run_uuid"].to_pylist())


@pytest.mark.parametrize("is_merged", [False, True], ids=["a file each", "one file"])
def test_only_what_is_younger_is_left(home: DataDir, receive: Receive, is_merged: bool) -> None:
    for days, name in ((100, "old"), (95, "older than it looks"), (80, "young"), (0, "new")):
        receive(days, name)
    if is_merged:
        compact_tables(Lake(home.lake))
    end = end_position(home.log)
    dropped = expire_events(home, timedelta(days=90))
    assert runs(home) == ["new", "young"]
    assert runs(home, "run_facets") == ["new"] * 2 + ["young"] * 2
    assert Lake(home.lake).row_counts()["large_facets"] == 2
    assert (
        dropped.deleted_rows["lineage_events"],
        dropped.deleted_rows["run_facets"],
        dropped.deleted_rows["large_facets"],
    ) == (2, 4, 2)
    assert dropped.segments == 2
    assert end_position(home.log) == end, "numbers go on where they were"
    assert not home.index_file.exists(), "it would know what is gone"


def test_what_comes_afterwards_is_taken_in(home: DataDir, receive: Receive) -> None:
    receive(100, "old")
    expire_events(home, timedelta(days=90))
    receive(0, "new")
    assert runs(home) == ["new"]


def test_nothing_old_is_nothing_done(home: DataDir, receive: Receive) -> None:
    receive(10, "young")
    versions = {name: Lake(home.lake).table(name).version() for name in Lake(home.lake).row_counts()}  # type: ignore[union-attr]
    assert expire_events(home, timedelta(days=90)) == maintenance.RetentionResult()
    assert {name: Lake(home.lake).table(name).version() for name in versions} == versions  # type: ignore[union-attr]
    assert home.index_file.exists()


def test_not_under_a_pipeline_at_work(home: DataDir, receive: Receive) -> None:
    receive(100, "old")
    with (
        acquire_lock(home.lake / ".lock"),
        pytest.raises(LockedError, match=r"Another pipeline is running .*process \d+"),
    ):
        expire_events(home, timedelta(days=90))
    assert runs(home) == ["old"]


def test_what_was_not_taken_in_stays_in_the_log(home: DataDir, receive: Receive) -> None:
    for name in ("a", "b", "c"):
        receive(100, name)
    found = list_segments(home.log)
    assert drop_segments(home.log, datetime.now(UTC), found[1].end - 1) == (1, found[0].end)
    assert list_segments(home.log) == found[1:]
    assert drop_segments(home.log, datetime.now(UTC), found[-1].end)[0] == len(found) - 2
    assert list_segments(home.log) == found[-1:], "the last one tells where the next event will stand"


def test_the_log_alone_may_be_kept_short(home: DataDir, receive: Receive) -> None:
    for days, name in ((100, "old"), (50, "young"), (0, "new")):
        receive(days, name)
    end = end_position(home.log)
    # Beside a pipeline at work.
    with acquire_lock(home.lake / ".lock"):
        dropped = expire_log_segments(home, timedelta(days=30))
    assert (dropped.deleted_rows, dropped.segments) == ({}, 2)
    assert runs(home) == ["new", "old", "young"]
    assert home.index_file.exists()
    assert end_position(home.log) == end
    receive(0, "newer")
    assert runs(home) == ["new", "newer", "old", "young"]


def test_segments_stay_until_lake_and_index_have_them(home: DataDir, receive: Receive) -> None:
    receive(100, "old")
    receive(90, "less old")
    taken = end_position(home.log)
    append(home, days=80, name="waiting")
    append(home, days=0, name="new")
    assert expire_log_segments(home, timedelta(days=30)).segments == 2
    assert list_segments(home.log)[0].base == taken
    # As a crash leaves it: Spark is done with a batch that the index has not got yet.
    note_taken(home)
    assert expire_log_segments(home, timedelta(days=30)).segments == 0


def test_upkeep_keeps_the_log_short_if_it_is_told_to(home: DataDir, receive: Receive) -> None:
    receive(100, "old")
    receive(0, "new")
    lake = Lake(home.lake)
    for name in DERIVED_TABLE_NAMES:
        lake.replace(name, RUN_FACETS.schema, [], lake.source_fingerprint())
    assert run_maintenance(home, 7 * 24).expired.segments == 0
    assert run_maintenance(home, 7 * 24, log_retention=timedelta(days=30)).expired.segments == 1
