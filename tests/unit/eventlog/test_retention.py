"""Tests of the lag of the event log and of positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.collector.file_import import import_streams, pending_stream_bytes
from clew.eventlog.retention import Lag, measure_lag, next_position
from clew.eventlog.segments import read_lines, split_ranges
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream

COUNT = 10


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with LogWriter(tmp_path, segment_bytes=300) as writer:
        for number in range(COUNT):
            writer.append([IncomingEvent(Stream.OPENLINEAGE, "test", b'{"n": %d}' % number)])
    assert len(list(tmp_path.glob("*.ndjson"))) > 2
    return tmp_path


def record_positions(folder: Path) -> list[int]:
    return [seq for range_ in split_ranges(folder, 0, 1 << 30, 1 << 30) for seq, _ in read_lines(range_)]


@pytest.mark.parametrize("ingested", range(COUNT + 1))
def test_counts_events_after_a_position(log: Path, ingested: int) -> None:
    end = sum(path.stat().st_size for path in log.glob("*.ndjson"))
    position = [*record_positions(log), end][ingested]
    assert measure_lag(log, position) == Lag(position, end, end - position, COUNT - ingested, is_estimate=False)


def test_estimates_the_events_of_a_long_lag(log: Path) -> None:
    lag = measure_lag(log, 0, max_scan_bytes=record_positions(log)[4])
    assert (lag.events, lag.is_estimate) == (COUNT, True)


def test_a_log_shorter_than_the_position_has_no_lag(log: Path) -> None:
    lag = measure_lag(log, 1 << 40)
    assert (lag.bytes, lag.events) == (0, 0)
    assert lag.end < lag.position


def test_a_missing_log_has_no_lag(tmp_path: Path) -> None:
    assert measure_lag(tmp_path / "log", 0) == Lag(0, 0, 0, 0, is_estimate=False)


def test_next_position_is_the_start_of_the_next_event(log: Path) -> None:
    end = sum(path.stat().st_size for path in log.glob("*.ndjson"))
    assert [next_position(log, seq) for seq in record_positions(log)] == [*record_positions(log)[1:], end]


def test_pending_stream_bytes_counts_notebook_events_since_the_last_import(tmp_path: Path) -> None:
    stream = tmp_path / "streams" / "aaaa1111" / "marimo_runtime.jsonl"
    stream.parent.mkdir(parents=True)
    stream.write_bytes(b'{"a": 1}\n')
    assert pending_stream_bytes(tmp_path / "streams", tmp_path / "log") == 9
    with LogWriter(tmp_path / "log") as log:
        import_streams(tmp_path / "streams", log)
    assert pending_stream_bytes(tmp_path / "streams", tmp_path / "log") == 0
