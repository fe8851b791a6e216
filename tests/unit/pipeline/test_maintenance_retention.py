"""Tests of retention in lake, index and log."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.lake import mark_refreshed

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.eventlog.retention import drop_segments
from clew.eventlog.segments import decode_record, end_position, list_segments, read_lines, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.compaction import ExpiredKind, ExpiredSelection, compact_tables
from clew.lake.lake import Lake
from clew.lake.schemas import EVENT_GRAIN_TABLES
from clew.pipeline import maintenance
from clew.pipeline.ingest import IngestStats
from clew.pipeline.locks import LockedError, acquire_lock
from clew.pipeline.maintenance import expire_events, expire_log_segments, run_maintenance

IngestLog = Callable[..., IngestStats]
IngestEvent = Callable[..., None]
LARGE_TEXT = "x" * 100_000


@pytest.fixture
def ingest_event(home: DataDir, ingest_log: IngestLog) -> IngestEvent:
    """Return a function that ingests an event received some days ago, in a separate segment."""

    def ingest(days: int, name: str) -> None:
        position = end_position(home.log)
        append_event(home, days, name)
        ingest_log(position)
        mark_ingested(home)

    return ingest


def append_event(home: DataDir, days: int, name: str) -> None:
    """Append an event received some days ago, in a separate segment."""
    facets = {"note": {"text": name}, "plan": {"text": LARGE_TEXT}}
    event = {
        "eventTime": "2026-01-01T10:00:00Z",
        "run": {"runId": name, "facets": facets},
        "job": {"namespace": "n", "name": "j"},
    }
    with pytest.MonkeyPatch.context() as patch, LogWriter(home.log, segment_bytes=1) as log:
        patch.setattr("clew.eventlog.writer.datetime", _FixedClock(datetime.now(UTC) - timedelta(days=days)))
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", json.dumps(event).encode())])


class _FixedClock:
    def __init__(self, now: datetime) -> None:
        self._moment = now

    def now(self, _: object) -> datetime:
        return self._moment


def mark_ingested(home: DataDir) -> None:
    for name in ("offsets", "commits"):
        path = home.checkpoint / "log" / name / "0"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'v1\n{{}}\n{{"position":{end_position(home.log)}}}')


def read_runs(home: DataDir, table: str = "lineage_events") -> list[str]:
    delta_table = Lake(home.lake).table(table)
    assert delta_table is not None
    return sorted(delta_table.to_pyarrow_table()["run_uuid"].to_pylist())


@pytest.mark.parametrize("is_compacted", [False, True], ids=["separate files", "one file"])
def test_deletes_events_older_than_the_retention(home: DataDir, ingest_event: IngestEvent, is_compacted: bool) -> None:
    for days, name in ((100, "old"), (95, "older than it looks"), (80, "young"), (0, "new")):
        ingest_event(days, name)
    if is_compacted:
        compact_tables(Lake(home.lake))
    end = end_position(home.log)
    expired = expire_events(home, timedelta(days=90))
    assert read_runs(home) == ["new", "young"]
    assert read_runs(home, "run_facets") == ["new"] * 2 + ["young"] * 2
    assert Lake(home.lake).row_counts()["large_facets"] == 2
    assert (
        expired.deleted_rows["lineage_events"],
        expired.deleted_rows["run_facets"],
        expired.deleted_rows["large_facets"],
    ) == (2, 4, 2)
    assert expired.segments == 2
    assert end_position(home.log) == end, "positions continue"
    assert not home.index_file.exists(), "it would still contain deleted events"


def test_ingests_events_after_expiry(home: DataDir, ingest_event: IngestEvent) -> None:
    ingest_event(100, "old")
    expire_events(home, timedelta(days=90))
    ingest_event(0, "new")
    assert read_runs(home) == ["new"]


def test_changes_nothing_without_old_events(home: DataDir, ingest_event: IngestEvent) -> None:
    ingest_event(10, "young")
    versions = {name: Lake(home.lake).table(name).version() for name in Lake(home.lake).row_counts()}  # type: ignore[union-attr]
    assert expire_events(home, timedelta(days=90)) == maintenance.RetentionResult()
    assert {name: Lake(home.lake).table(name).version() for name in versions} == versions  # type: ignore[union-attr]
    assert home.index_file.exists()


def test_rejects_expiry_while_a_pipeline_runs(home: DataDir, ingest_event: IngestEvent) -> None:
    ingest_event(100, "old")
    with (
        acquire_lock(home.lake / ".lock"),
        pytest.raises(LockedError, match=r"Another pipeline is running .*process \d+"),
    ):
        expire_events(home, timedelta(days=90))
    assert read_runs(home) == ["old"]


def test_drop_segments_retains_segments_not_ingested(home: DataDir, ingest_event: IngestEvent) -> None:
    for name in ("a", "b", "c"):
        ingest_event(100, name)
    segments = list_segments(home.log)
    assert drop_segments(home.log, datetime.now(UTC), segments[1].end - 1) == (1, segments[0].end)
    assert list_segments(home.log) == segments[1:]
    assert drop_segments(home.log, datetime.now(UTC), segments[-1].end)[0] == len(segments) - 2
    assert list_segments(home.log) == segments[-1:], "the last segment has the next position"


def test_expires_only_the_log(home: DataDir, ingest_event: IngestEvent) -> None:
    for days, name in ((100, "old"), (50, "young"), (0, "new")):
        ingest_event(days, name)
    end = end_position(home.log)
    # While a pipeline runs.
    with acquire_lock(home.lake / ".lock"):
        expired = expire_log_segments(home, timedelta(days=30))
    assert (expired.deleted_rows, expired.segments) == ({}, 2)
    assert read_runs(home) == ["new", "old", "young"]
    assert home.index_file.exists()
    assert end_position(home.log) == end
    ingest_event(0, "newer")
    assert read_runs(home) == ["new", "newer", "old", "young"]


def test_retains_segments_until_lake_and_index_have_them(home: DataDir, ingest_event: IngestEvent) -> None:
    ingest_event(100, "old")
    ingest_event(90, "less old")
    ingested = end_position(home.log)
    append_event(home, days=80, name="waiting")
    append_event(home, days=0, name="new")
    assert expire_log_segments(home, timedelta(days=30)).segments == 2
    assert list_segments(home.log)[0].base == ingested
    # State after a crash: Spark has committed a batch that is missing in the index.
    mark_ingested(home)
    assert expire_log_segments(home, timedelta(days=30)).segments == 0


def test_maintenance_expires_the_log_if_configured(home: DataDir, ingest_event: IngestEvent) -> None:
    ingest_event(100, "old")
    ingest_event(0, "new")
    lake = Lake(home.lake)
    mark_refreshed(lake)
    assert run_maintenance(home, 7 * 24).expired.segments == 0
    assert run_maintenance(home, 7 * 24, log_retention=timedelta(days=30)).expired.segments == 1


def lineage_event(name: str, **subject: object) -> bytes:
    return json.dumps({"eventTime": "2026-01-01T10:00:00Z", **subject, "producer": name}).encode()


SELECTED = {
    "run of sales": lineage_event("a", run={"runId": "r1"}, job={"namespace": "sales/eu", "name": "j"}),
    "run of hr": lineage_event("b", run={"runId": "r2"}, job={"namespace": "hr", "name": "j"}),
    "job of hr": lineage_event("c", job={"namespace": "hr", "name": "j"}),
    "dataset of sales": lineage_event("d", dataset={"namespace": "sales", "name": "d", "facets": {"x": {"a": 1}}}),
    "cell": b'{"event_type":"cell_execution_start","session_id":"s","execution_id":"e","timestamp":"2026-01-01"}',
    "operation": b'{"event_type":"dataframe_lineage","session_id":"s","execution_id":"e","timestamp":"2026-01-01"}',
    "rejected": b"no event",
}


@pytest.mark.parametrize(
    ("selection", "expired"),
    [
        (ExpiredSelection(("sales",)), {"run of sales", "dataset of sales"}),
        (ExpiredSelection(("hr", "marimo")), {"run of hr", "job of hr", "cell", "operation"}),
        (ExpiredSelection(kinds=(ExpiredKind.RUN,)), {"run of sales", "run of hr"}),
        (ExpiredSelection(kinds=(ExpiredKind.CELL, ExpiredKind.REJECTED)), {"cell", "rejected"}),
        (ExpiredSelection(("hr",), (ExpiredKind.JOB, ExpiredKind.OPERATION)), {"job of hr"}),
        (ExpiredSelection(("other",)), set()),
    ],
    # Not the sets, whose order differs between processes.
    ids=["namespace", "namespaces", "runs", "kinds", "namespace and kinds", "unknown namespace"],
)
def test_deletes_selected_events_from_lake_and_log(
    home: DataDir, ingest_log: IngestLog, selection: ExpiredSelection, expired: set[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch, LogWriter(home.log) as log:
        patch.setattr("clew.eventlog.writer.datetime", _FixedClock(datetime.now(UTC) - timedelta(days=100)))
        log.append(IncomingEvent(guess_stream(body), name, body) for name, body in SELECTED.items())
    young = lineage_event("young", run={"runId": "r9"}, job={"namespace": "sales", "name": "j"})
    with LogWriter(home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "young", young)])
    ingest_log()
    mark_ingested(home)
    end = end_position(home.log)
    result = expire_events(home, timedelta(days=90), selection)
    assert result.log_events == len(expired)
    expected = {body for name, body in SELECTED.items() if name not in expired} | {young}
    parts = split_ranges(home.log, 0, end, 1 << 20)
    assert {decode_record(line).body for part in parts for _, line in read_lines(part)} == expected
    assert end_position(home.log) == end
    counts = Lake(home.lake).row_counts()
    assert sum(counts[name] for name in EVENT_GRAIN_TABLES) == len(expected)
    assert expire_events(home, timedelta(days=90), selection) == maintenance.RetentionResult()
