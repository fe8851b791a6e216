"""Dead letters come back once they can be read, and only once."""

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

Take = Callable[..., IngestStats]

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
def rejected(home: DataDir, take: Take, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    """A home in which an older clew has rejected two events: one that is newer than itself, and one that is none."""
    with LogWriter(home.log) as log:
        log.append(IncomingEvent(Stream.OPENLINEAGE, "sender", body) for body in (NEWER, BROKEN))
    with monkeypatch.context() as older:
        older.setattr(openlineage, "MAX_SCHEMA_MODEL", 1)
        taken = take()
    assert (taken.events, taken.rejected) == (0, 2)
    return home


def rows(home: DataDir, table: str) -> list[tuple[str, object]]:
    found = Lake(home.lake).table(table)
    assert found is not None
    body = "event" if table == "lineage_events" else "body"
    return [(row["source"], row[body]) for row in found.to_pyarrow_table().sort_by("seq").to_pylist()]


def test_an_event_that_an_older_clew_rejected_is_taken_in(rejected: DataDir, take: Take) -> None:
    end = end_position(rejected.log)
    assert replay_rejected_events(rejected) == ReplayStats(replayed=1, still_rejected=1)
    taken = take(end)
    assert (taken.events, taken.rejected, taken.duplicates) == (1, 0, 0)
    assert rows(rejected, "lineage_events") == [("sender", NEWER.decode())]
    assert rows(rejected, "rejected_events") == [("sender", NEWER), ("sender", BROKEN)], "what was rejected stays told"
    with IndexReader(rejected.index) as index:
        assert index.datasets() == []
        assert index.rejected_count() == 1


def test_it_is_replayed_once(rejected: DataDir, take: Take) -> None:
    replay_rejected_events(rejected)
    end = end_position(rejected.log)
    assert replay_rejected_events(rejected) == ReplayStats(already_queued=1, still_rejected=1)
    take()
    assert replay_rejected_events(rejected) == ReplayStats(already_ingested=1, still_rejected=1)
    assert end_position(rejected.log) == end


def test_the_log_read_again_doubles_nothing(rejected: DataDir, take: Take) -> None:
    replay_rejected_events(rejected)
    assert take().events == 1
    again = take()
    assert (again.events, again.rejected) == (0, 0)
    assert len(rows(rejected, "lineage_events")) == 1
    assert len(rows(rejected, "rejected_events")) == 2


def test_a_batch_that_is_given_again_after_a_crash_doubles_nothing(
    rejected: DataDir, take: Take, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay_rejected_events(rejected)
    with monkeypatch.context() as crash:
        crash.setattr("clew.index.writer.IndexWriter.apply", _went_down)
        with pytest.raises(ClewError, match="went down"):
            take()
    assert len(rows(rejected, "lineage_events")) == 1
    take(is_again=True)
    assert len(rows(rejected, "lineage_events")) == 1
    assert replay_rejected_events(rejected) == ReplayStats(already_ingested=1, still_rejected=1)
    assert take().events == 0


def _went_down(*_: object) -> None:
    raise OSError("the machine went down")


@pytest.mark.parametrize(("reason", "replayed"), [("unknown_schema", 1), ("not_json", 0), ("too_deep", 0)])
def test_only_those_of_one_reason(rejected: DataDir, reason: str, replayed: int) -> None:
    assert replay_rejected_events(rejected, reason).replayed == replayed


def test_status_tells_what_is_open(rejected: DataDir, take: Take) -> None:
    found = read_status(rejected)
    assert (found.rejected.count, found.rejected.unresolved, found.log.events) == (2, 2, 0)
    assert [one.reason for one in found.rejected.last] == ["not_json", "unknown_schema"]
    end = end_position(rejected.log)
    replay_rejected_events(rejected)
    assert read_status(rejected).log.events == 1
    take(end)
    found = read_status(rejected)
    assert (found.rejected.count, found.rejected.unresolved, found.log.events) == (2, 1, 0)
    assert [batch.number for batch in found.batches] == [1, 0]
    assert [batch.rows for batch in found.batches] == [{"lineage_events": 1}, {"rejected_events": 2}]


def test_not_beside_someone_who_writes_to_the_log(rejected: DataDir) -> None:
    with LogWriter(rejected.log), pytest.raises(ClewError, match="Another process is writing to the log"):
        replay_rejected_events(rejected)


def test_without_a_lake_it_says_so_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ClewError, match="There is no lake at"):
        replay_rejected_events(DataDir(tmp_path / "none"))
    assert list(tmp_path.iterdir()) == []
