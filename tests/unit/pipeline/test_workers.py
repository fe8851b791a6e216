"""Large events: what is noted of them is put aside as it comes, and the index takes it all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.reference.events import log_lines
from tests.reference.expected import INDEX, differences, expected
from tests.reference.query_context import index_tables, kept_in_index

from clew.data_dir import DataDir
from clew.eventlog.segments import end_position
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.lake import WORKER_REPORTS_DIR
from clew.pipeline import ingest
from clew.pipeline import workers as worker
from clew.pipeline.ingest import IngestStats
from clew.pipeline.spark.dataframes import write_events
from clew.pipeline.worker_reports import WorkerReport
from clew.pipeline.workers import EventWorker

Take = Callable[..., IngestStats]


def event(number: int) -> bytes:
    """One of five of a run; together they are not what each of them says."""
    lineage = {"fields": {f"c{number}": {"inputFields": [{"namespace": "n", "name": "in", "field": "c"}]}}}
    return json.dumps(
        {
            "eventType": "START" if number % 5 == 0 else "COMPLETE",
            "eventTime": f"2026-01-01T10:{number:02}:00Z",
            "run": {"runId": f"r{number // 5}", "facets": {"note": {"number": number}}},
            "job": {"namespace": "n", "name": "j"},
            "outputs": [{"namespace": "n", "name": "out", "facets": {"columnLineage": lineage}}],
        }
    ).encode()


def append(home: DataDir, *bodies: bytes) -> None:
    with LogWriter(home.log) as log:
        log.append_duplicates([IncomingEvent(Stream.OPENLINEAGE, "test", body) for body in bodies])


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[WorkerReport]:
    """What workers tell, if every event is a large one and two of them are too much."""
    found: list[WorkerReport] = []
    monkeypatch.setattr(worker, "LARGE_EVENT_BYTES", 0)
    for limit in ("BYTES_PER_BATCH", "MAX_LARGE_EVENTS_BYTES"):
        monkeypatch.setattr(worker, limit, 2 * len(event(0)))

    def write(ranges: Any, worker: EventWorker) -> WorkerReport:
        found.append(write_events(ranges, worker))
        return found[-1]

    monkeypatch.setattr(ingest, "write_events", write)
    return found


def left_over(home: DataDir) -> list[Path]:
    return list((home.lake_folder / WORKER_REPORTS_DIR).iterdir())


def test_the_index_takes_all_that_was_put_aside(home: DataDir, take: Take, told: list[WorkerReport]) -> None:
    append(home, *map(event, range(12)), b"no event at all")
    taken = take()
    assert (taken.events, taken.rejected) == (12, 1)
    assert len(told[0].spilled) >= 5
    assert told[0].changes.lineage_assertions == []
    wanted = kept_in_index(expected(list(log_lines(home.log)), INDEX))
    assert differences(index_tables(home.index_file, wanted), wanted) == {}
    assert left_over(home) == []


def test_what_is_written_twice_is_taken_once(home: DataDir, take: Take, told: list[WorkerReport]) -> None:
    append(home, *map(event, range(6)))
    take()
    end = end_position(home.log)
    append(home, *map(event, range(4, 8)))
    taken = take(end)
    assert (taken.events, taken.duplicates, len(told)) == (2, 2, 3)
    wanted = kept_in_index(expected(list(log_lines(home.log)), INDEX))
    assert differences(index_tables(home.index_file, wanted), wanted) == {}
    assert left_over(home) == []


def test_usual_events_are_told_at_once(home: DataDir, take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_LARGE_EVENTS_BYTES", 1)
    monkeypatch.setattr(worker, "spill_changes", lambda *_: pytest.fail("nothing is large"))
    append(home, *map(event, range(12)))
    assert take().events == 12
