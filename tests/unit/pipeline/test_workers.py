"""Tests of event workers with large events."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.reference.events import log_lines
from tests.reference.expected import INDEX, differences, expected_tables
from tests.reference.query_context import index_tables, restrict_to_index

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
from clew.pipeline.workers import EventTask

IngestLog = Callable[..., IngestStats]


def make_event(number: int) -> bytes:
    """One of five events of a run that differ in lineage and facets."""
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


def append_events(home: DataDir, *bodies: bytes) -> None:
    with LogWriter(home.log) as log:
        log.append_duplicates([IncomingEvent(Stream.OPENLINEAGE, "test", body) for body in bodies])


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[WorkerReport]:
    """Collect the reports of workers for which every event is large and two exceed the limit."""
    collected: list[WorkerReport] = []
    monkeypatch.setattr(worker, "LARGE_EVENT_BYTES", 0)
    for limit in ("BYTES_PER_BATCH", "MAX_LARGE_EVENTS_BYTES"):
        monkeypatch.setattr(worker, limit, 2 * len(make_event(0)))

    def write(ranges: Any, task: EventTask) -> WorkerReport:
        collected.append(write_events(ranges, task))
        return collected[-1]

    monkeypatch.setattr(ingest, "write_events", write)
    return collected


def list_spilled_files(home: DataDir) -> list[Path]:
    return list((home.lake_folder / WORKER_REPORTS_DIR).iterdir())


def test_index_receives_all_spilled_changes(home: DataDir, ingest_log: IngestLog, reports: list[WorkerReport]) -> None:
    append_events(home, *map(make_event, range(12)), b"no event at all")
    stats = ingest_log()
    assert (stats.events, stats.rejected) == (12, 1)
    assert len(reports[0].spilled) >= 5
    assert reports[0].changes.lineage_assertions == []
    tables = restrict_to_index(expected_tables(list(log_lines(home.log)), INDEX))
    assert differences(index_tables(home.index_file, tables), tables) == {}
    assert list_spilled_files(home) == []


def test_ingests_duplicates_once(home: DataDir, ingest_log: IngestLog, reports: list[WorkerReport]) -> None:
    append_events(home, *map(make_event, range(6)))
    ingest_log()
    end = end_position(home.log)
    append_events(home, *map(make_event, range(4, 8)))
    stats = ingest_log(end)
    assert (stats.events, stats.duplicates, len(reports)) == (2, 2, 3)
    tables = restrict_to_index(expected_tables(list(log_lines(home.log)), INDEX))
    assert differences(index_tables(home.index_file, tables), tables) == {}
    assert list_spilled_files(home) == []


def test_does_not_spill_small_events(home: DataDir, ingest_log: IngestLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_LARGE_EVENTS_BYTES", 1)
    monkeypatch.setattr(worker, "spill_changes", lambda *_: pytest.fail("no event is large"))
    append_events(home, *map(make_event, range(12)))
    assert ingest_log().events == 12
