"""Tests of the replay of rejected events."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events import openlineage
from clew.events.streams import Stream
from clew.index.queries.reader import IndexReader
from clew.lake.lake import Lake
from clew.pipeline.ingest import IngestStats
from clew.pipeline.reprocess import ReplayStats, replay_rejected_events
from clew.pipeline.status import read_status

IngestLog = Callable[..., IngestStats]

EVENT = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-01T10:00:00Z",
    "run": {"runId": "01930a00-0000-7000-8000-000000000001"},
    "job": {"namespace": "shop", "name": "load"},
    "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json",
}
NEWER = json.dumps(EVENT).encode()
BROKEN = b"no event at all"


@pytest.fixture
def rejected_home(home: DataDir, ingest_log: IngestLog, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    """Create a data directory with two rejected events: one of a newer schema and one that is not JSON."""
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(Stream.OPENLINEAGE, "sender", body) for body in (NEWER, BROKEN))
    with monkeypatch.context() as patch:
        patch.setattr(openlineage, "MAX_SCHEMA_MODEL", 1)
        stats = ingest_log()
    assert (stats.events, stats.rejected) == (0, 2)
    return home


def read_rows(home: DataDir, table: str) -> list[tuple[str, object]]:
    delta_table = Lake(home.lake).table(table)
    assert delta_table is not None
    body = "event" if table == "lineage_events" else "body"
    return [(row["source"], row[body]) for row in delta_table.to_pyarrow_table().sort_by("seq").to_pylist()]


def test_replays_an_event_that_is_valid_now(rejected_home: DataDir, ingest_log: IngestLog) -> None:
    end = end_position(rejected_home.log)
    assert replay_rejected_events(rejected_home) == ReplayStats(replayed=1, still_rejected=1)
    stats = ingest_log(end)
    assert (stats.events, stats.rejected, stats.duplicates) == (1, 0, 0)
    assert read_rows(rejected_home, "lineage_events") == [("sender", NEWER.decode())]
    assert read_rows(rejected_home, "rejected_events") == [("sender", NEWER), ("sender", BROKEN)], (
        "rejected events remain recorded"
    )
    with IndexReader(rejected_home.index) as index:
        assert index.recent_names("dataset") == []
        assert index.rejected_count() == 1


def test_replays_an_event_once(rejected_home: DataDir, ingest_log: IngestLog) -> None:
    replay_rejected_events(rejected_home)
    end = end_position(rejected_home.log)
    assert replay_rejected_events(rejected_home) == ReplayStats(already_queued=1, still_rejected=1)
    ingest_log()
    assert replay_rejected_events(rejected_home) == ReplayStats(already_ingested=1, still_rejected=1)
    assert end_position(rejected_home.log) == end


def test_reading_the_log_again_stores_no_duplicates(rejected_home: DataDir, ingest_log: IngestLog) -> None:
    replay_rejected_events(rejected_home)
    assert ingest_log().events == 1
    stats = ingest_log()
    assert (stats.events, stats.rejected) == (0, 0)
    assert len(read_rows(rejected_home, "lineage_events")) == 1
    assert len(read_rows(rejected_home, "rejected_events")) == 2


def test_a_retried_batch_stores_no_duplicates(
    rejected_home: DataDir, ingest_log: IngestLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay_rejected_events(rejected_home)
    with monkeypatch.context() as patch:
        patch.setattr("clew.index.writer.IndexWriter.apply", _crash)
        with pytest.raises(ClewError, match="went down"):
            ingest_log()
    assert len(read_rows(rejected_home, "lineage_events")) == 1
    ingest_log(is_retry=True)
    assert len(read_rows(rejected_home, "lineage_events")) == 1
    assert replay_rejected_events(rejected_home) == ReplayStats(already_ingested=1, still_rejected=1)
    assert ingest_log().events == 0


def _crash(*_: object) -> None:
    raise OSError("the machine went down")


@pytest.mark.parametrize(("reason", "replayed"), [("unknown_schema", 1), ("not_json", 0), ("too_deep", 0)])
def test_replays_only_events_of_a_reason(rejected_home: DataDir, reason: str, replayed: int) -> None:
    assert replay_rejected_events(rejected_home, reason).replayed == replayed


def test_status_counts_unresolved_events(rejected_home: DataDir, ingest_log: IngestLog) -> None:
    status = read_status(rejected_home)
    assert (status.rejected.count, status.rejected.unresolved, status.log.events) == (2, 2, 0)
    assert [event.reason for event in status.rejected.last] == ["not_json", "unknown_schema"]
    end = end_position(rejected_home.log)
    replay_rejected_events(rejected_home)
    assert read_status(rejected_home).log.events == 1
    ingest_log(end)
    status = read_status(rejected_home)
    assert (status.rejected.count, status.rejected.unresolved, status.log.events) == (2, 1, 0)
    assert [batch.number for batch in status.batches] == [1, 0]
    assert [batch.rows for batch in status.batches] == [{"lineage_events": 1}, {"rejected_events": 2}]


def test_rejects_a_replay_while_the_log_is_written(rejected_home: DataDir) -> None:
    with LogWriter(rejected_home.log), pytest.raises(ClewError, match="Another process is writing to the log"):
        replay_rejected_events(rejected_home)


def test_reports_a_missing_lake(tmp_path: Path) -> None:
    with pytest.raises(ClewError, match="There is no lake at"):
        replay_rejected_events(DataDir(tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []
