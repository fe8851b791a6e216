"""Tests of event workers with large events and with damaged logs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.events import log_lines
from tests.reference.expected import INDEX, differences, expected_tables
from tests.reference.query_context import index_tables, restrict_to_index

from clew.data_dir import DataDir
from clew.eventlog.segments import end_position, segment_path, split_damaged
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.decoding import RejectedError, RejectionReason
from clew.events.streams import Stream
from clew.lake.lake import WORKER_REPORTS_DIR, Lake
from clew.pipeline import ingest
from clew.pipeline import workers as worker
from clew.pipeline.ingest import IngestStats
from clew.pipeline.spark.dataframes import write_events
from clew.pipeline.status import read_status
from clew.pipeline.worker_reports import WorkerReport
from clew.pipeline.workers import EventTask, TaskEvent, read_log_events

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


EVENTS = [make_event(number) for number in range(4)]


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a segment with a few events, one of them no JSON."""
    folder = tmp_path_factory.mktemp("log")
    with LogWriter(folder) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", body) for body in (*EVENTS, b"no event at all")])
    return segment_path(folder, 0)


def read_damaged(segment: Path, text: bytes) -> list[TaskEvent]:
    """Read a segment with another content."""
    path = segment.with_name("damaged.ndjson")
    path.write_bytes(text)
    row = {"path": str(path), "base": 0, "start": 0, "end": len(text)}
    return list(read_log_events(iter([pa.RecordBatch.from_pylist([row])])))


def count_corrupt(items: Sequence[TaskEvent]) -> int:
    errors = [item.event for item in items if isinstance(item.event, RejectedError)]
    return sum(error.reason is RejectionReason.CORRUPT_RECORD for error in errors)


@given(st.data())
def test_a_flipped_bit_costs_one_record_at_most(segment: Path, data: st.DataObject) -> None:
    text = segment.read_bytes()
    # The last newline ends the log: without it, the last record is a torn tail.
    position, bit = data.draw(st.integers(0, len(text) - 2)), data.draw(st.integers(0, 7))
    damaged = bytearray(text)
    damaged[position] ^= 1 << bit
    items = read_damaged(segment, bytes(damaged))
    intact = [item.origin.seq for item in read_damaged(segment, text)]
    hit = max(seq for seq in intact if seq <= position)
    is_newline = text[position : position + 1] == b"\n"
    bodies = {item.origin.seq: bytes(item.origin.body or b"") for item in items}
    expected = [*EVENTS, b"no event at all"]
    for seq, body in zip(intact, expected, strict=True):
        # A record is lost or as it was written, also if the name of the checksum was hit.
        assert (seq != hit or is_newline) <= (bodies.get(seq) == body)
    assert is_newline or bodies.get(hit) == expected[intact.index(hit)] or count_corrupt(items) in (1, 2)


@given(st.integers(0, 400), st.integers(1, 2000))
def test_zeros_in_a_segment_cost_only_the_records_they_hit(segment: Path, start: int, size: int) -> None:
    text = segment.read_bytes()
    stop = min(start + size, len(text) - 1)
    items = read_damaged(segment, text[:start] + bytes(stop - start) + text[stop:])
    seqs = [item.origin.seq for item in read_damaged(segment, text)]
    spared = {seq for seq, end in zip(seqs, [*seqs[1:], len(text)], strict=True) if end <= start or seq >= stop}
    assert spared <= {item.origin.seq for item in items if not isinstance(item.event, RejectedError)} | {seqs[-1]}
    assert count_corrupt(items) >= 1


def test_records_without_a_checksum_are_read(segment: Path) -> None:
    text = re.sub(rb',"crc":"[0-9a-f]{8}"', b"", segment.read_bytes())
    items = read_damaged(segment, text)
    assert [bytes(item.origin.body or b"") for item in items] == [*EVENTS, b"no event at all"]
    assert count_corrupt(items) == 0


def test_an_event_may_contain_records(segment: Path) -> None:
    inner = segment.read_bytes().splitlines()[0]
    with LogWriter(segment.parent / "nested") as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b'{"records":[%s,%s],"n":1}' % (inner, inner))])
    line = segment_path(log.folder, 0).read_bytes()[:-1]
    assert list(split_damaged(line + b"?" + inner)) == [(0, line), (len(line) + 1, inner)]
    assert count_corrupt(read_damaged(segment, line.replace(b'"n":1', b'"n":2') + b"\n")) >= 1


def test_a_damaged_newline_at_the_end_of_a_segment_costs_no_record(segment: Path) -> None:
    text = segment.read_bytes()
    assert len(read_damaged(segment, text[:-1])) == 5
    assert count_corrupt(read_damaged(segment, text[:-1] + b"?")) == 0


def test_counts_damaged_records(home: DataDir, ingest_log: IngestLog) -> None:
    append_events(home, *EVENTS)
    path = segment_path(home.log, 0)
    lines = path.read_bytes().splitlines()
    path.write_bytes(
        b"\n".join([lines[0], bytes(len(lines[1])), lines[2][:-9] + b'"1"' + lines[2][-6:], lines[3], b""])
    )
    stats = ingest_log()
    assert (stats.events, stats.rejected, stats.corrupt_records) == (2, 2, 2)
    status = read_status(home).rejected
    assert (status.count, status.corrupt_records) == (2, 2)
    assert [rejection.reason for rejection in status.last] == ["corrupt_record"] * 2
    rows = Lake(home.lake).require_table("rejected_events").to_pyarrow_table().to_pylist()
    assert {row["seq"]: len(row["body"]) for row in rows} == {
        len(lines[0]) + 1: len(lines[1]),
        len(lines[0]) + len(lines[1]) + 2: len(lines[2]),
    }
