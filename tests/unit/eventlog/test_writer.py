"""Tests of the log writer: acknowledged events are stored once, byte for byte."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.errors import ClewError
from clew.eventlog import segments as segments_module
from clew.eventlog.segments import (
    LogRecord,
    decode_record,
    end_position,
    list_segments,
    read_lines,
    segment_path,
    split_ranges,
)
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.ids import event_id
from clew.events.streams import Stream


def incoming_events(*bodies: bytes) -> list[IncomingEvent]:
    return [IncomingEvent(Stream.OPENLINEAGE, "test", body) for body in bodies]


def read_records(folder: Path) -> list[LogRecord]:
    ranges = split_ranges(folder, 0, end_position(folder), 1 << 20)
    return [decode_record(text) for range_ in ranges for _, text in read_lines(range_)]


def read_bodies(folder: Path) -> list[bytes]:
    return [record.body for record in read_records(folder)]


def test_reads_all_records_while_pages_are_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "_RELEASE_BYTES", 10_000)
    events = [b'"%d %s"' % (number, b"x" * (number * 997 % 30_000)) for number in range(200)]
    with LogWriter(tmp_path) as log:
        log.append(incoming_events(*events))
    ranges = split_ranges(tmp_path, 0, end_position(tmp_path), 700_000)
    assert len(ranges) > 3
    assert [decode_record(text).body for range_ in ranges for _, text in read_lines(range_)] == events


@pytest.mark.parametrize("max_bytes", [1, 7, 100, 5000])
def test_completes_partial_writes(max_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_partially(file: int, buffers: Sequence[bytes]) -> int:
        return os.write(file, b"".join(buffers)[:max_bytes])

    monkeypatch.setattr(os, "writev", write_partially)
    events = [b'"%d %s"' % (number, b"x" * number) for number in range(30)]
    with LogWriter(tmp_path) as log:
        log.append(incoming_events(*events, b"no json"))
    assert read_bodies(tmp_path) == [*events, b"no json"]


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        (b'{"a": 1}', b'{"a": 1}'),
        (b'  {"a" :  1.50, "a": "\\u00e9"}\t', b'{"a" :  1.50, "a": "\\u00e9"}'),
        (b'{\r\n  "a": 1\n}\n', b'{    "a": 1 }'),
        ('{"ä": "ö"}'.encode(), '{"ä": "ö"}'.encode()),
        (b"null", b"null"),
        # Bodies that are not JSON are stored unchanged, including line breaks.
        (b"not\njson\r\n", b"not\njson\r\n"),
        (b'{"a": "x\ny"}', b'{"a": "x\ny"}'),
        (b"\xff\xfe\x00", b"\xff\xfe\x00"),
        (b'{"a": "\xe9"}', b'{"a": "\xe9"}'),
        (b'{"a": NaN}', b'{"a": NaN}'),
        (b"[" * 10_000 + b"]" * 10_000, b"[" * 10_000 + b"]" * 10_000),
    ],
)
def test_reads_back_a_body(body: bytes, stored: bytes, tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        assert log.append(incoming_events(body)) == 1
    assert read_bodies(tmp_path) == [stored]
    assert segment_path(tmp_path, 0).read_bytes().count(b"\n") == 1


@given(st.lists(st.binary(min_size=1), unique=True, max_size=20))
def test_reads_back_any_bytes(tmp_path_factory: pytest.TempPathFactory, events: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("log")
    with LogWriter(folder, segment_bytes=200) as log:
        stored_count = sum(log.append(incoming_events(body)) for body in events)
    stored_bodies = read_bodies(folder)
    assert len(stored_bodies) == stored_count
    assert set(stored_bodies) <= {*events, *(body.strip(b" \t\r\n") for body in events)}


def test_fields_of_a_record(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        log.append(
            [IncomingEvent(Stream.RUNTIME, "6ac33987/marimo_runtime.jsonl", b"{}"), *incoming_events(b"no json")]
        )
    records = [msgspec.json.decode(line) for line in segment_path(tmp_path, 0).read_bytes().splitlines()]
    fields = {"at", "stream", "source", "id", "crc"}
    assert [set(record) for record in records] == [fields | {"event"}, fields | {"bytes"}]
    assert (records[0]["stream"], records[0]["source"]) == ("runtime", "6ac33987/marimo_runtime.jsonl")
    assert [record["id"] for record in records] == [event_id(b"{}"), event_id(b"no json")]


def test_ignores_empty_bodies(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        assert log.append(incoming_events(b"")) == 0
    assert read_bodies(tmp_path) == []


def test_stores_a_duplicate_once(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        assert log.append(incoming_events(b"1", b"2", b"1", b" 1 \n", b"no json", b"no json")) == 3
        assert log.append(incoming_events(b"2", b"3")) == 1
    with LogWriter(tmp_path) as log:
        assert log.append(incoming_events(b"1", b"3", b"no json", b"4")) == 1
    assert read_bodies(tmp_path) == [b"1", b"2", b"no json", b"3", b"4"]


def test_deduplication_window_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.eventlog.writer._DEDUP_WINDOW_EVENTS", 2)
    with LogWriter(tmp_path) as log:
        log.append(incoming_events(b"1", b"2", b"3"))
        assert log.append(incoming_events(b"1", b"3")) == 1


@pytest.mark.parametrize("torn", [b"{", b'{"at":"2026"', b"x" * 200_000])
def test_ignores_a_torn_tail_and_truncates_it_on_open(torn: bytes, tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        log.append(incoming_events(b"1"))
        end = log.position
    with segment_path(tmp_path, 0).open("ab") as file:
        file.write(torn)
    assert read_bodies(tmp_path) == [b"1"]
    assert end_position(tmp_path) == end
    with LogWriter(tmp_path) as log:
        assert log.position == end
        log.append(incoming_events(b"2"))
    assert read_bodies(tmp_path) == [b"1", b"2"]


def test_segments_are_contiguous(tmp_path: Path) -> None:
    events = [b"%d" % number for number in range(50)]
    for body in events:
        with LogWriter(tmp_path, segment_bytes=300) as log:
            log.append(incoming_events(body))
    segments = list_segments(tmp_path)
    assert len(segments) > 5
    assert [segment.end for segment in segments[:-1]] == [segment.base for segment in segments[1:]]
    assert read_bodies(tmp_path) == events
    with LogWriter(tmp_path, segment_bytes=300) as log:
        assert log.append(incoming_events(*events)) == 0


def test_starts_a_segment_after_the_maximum_age(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for hours in (0, 23, 24, 25, 49, 50):
        now = start + timedelta(hours=hours)
        monkeypatch.setattr("clew.eventlog.writer.datetime", SimpleNamespace(now=lambda _, now=now: now))
        # Reopened each time: the age is that of the first event, not of the writer.
        with LogWriter(tmp_path, segment_age=timedelta(days=1)) as log:
            log.append(incoming_events(b"%d" % hours))
    event_counts = [path.read_bytes().count(b"\n") for path in sorted(tmp_path.glob("*.ndjson"))]
    assert event_counts == [2, 2, 2]
    assert read_bodies(tmp_path) == [b"0", b"23", b"24", b"25", b"49", b"50"]


def test_retries_a_segment_that_could_not_be_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LogWriter(tmp_path, segment_bytes=1) as log:
        log.append(incoming_events(b"1"))
        with monkeypatch.context() as patch:
            patch.setattr("clew.eventlog.writer._sync_folder", raise_disk_full)
            for _ in range(2):
                with pytest.raises(ClewError, match="No space left"):
                    log.append(incoming_events(b"2"))
        assert log.append(incoming_events(b"2", b"3")) == 2
    assert read_bodies(tmp_path) == [b"1", b"2", b"3"]


def raise_disk_full(_: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_reads_foreign_lines_as_events(tmp_path: Path) -> None:
    foreign_lines = [
        b'{"eventTime": "2026-01-01T10:00:00Z"}',
        b"garbage",
        b'{"at":"?","stream":"s","source":"t","event":1}',
    ]
    segment_path(tmp_path, 0).write_bytes(b"".join(line + b"\n" for line in foreign_lines))
    assert read_bodies(tmp_path) == foreign_lines
    assert {record.source for record in read_records(tmp_path)} == {"log"}
    with LogWriter(tmp_path) as log:
        assert log.append(incoming_events(foreign_lines[0], b"2")) == 1


def test_stores_an_event_again_whose_record_is_damaged(tmp_path: Path) -> None:
    events = [b'{"n": %d}' % number for number in range(5)]
    with LogWriter(tmp_path) as log:
        log.append(incoming_events(*events))
    path = segment_path(tmp_path, 0)
    path.write_bytes(path.read_bytes().replace(events[2], b'{"n": 7}'))
    with LogWriter(tmp_path) as log:
        assert log.append(incoming_events(*events)) == 1


def test_restores_a_damaged_newline_at_the_end(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        log.append(incoming_events(b"1", b"2"))
    path = segment_path(tmp_path, 0)
    text = path.read_bytes()
    path.write_bytes(text[:-1] + b"\x00")
    with LogWriter(tmp_path) as log:
        assert log.append(incoming_events(b"2", b"3")) == 1
    assert path.read_bytes().startswith(text)
    assert read_bodies(tmp_path) == [b"1", b"2", b"3"]


def test_keeps_the_length_of_a_log_with_a_zeroed_tail(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        log.append(incoming_events(b"1", b"2", b"3"))
        end = log.position
    path = segment_path(tmp_path, 0)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1][:20] + bytes(end - len(lines[0]) - 20))
    with LogWriter(tmp_path) as log:
        assert log.position == end
        assert log.append(incoming_events(b"2", b"3", b"1")) == 2


@pytest.mark.parametrize("size", [0, 5, 160, None])
def test_starts_a_segment_if_the_log_is_cut_while_it_is_open(size: int | None, tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        log.append(incoming_events(b"1", b"2"))
        end, path = log.position, segment_path(tmp_path, 0)
        if size is None:
            path.unlink()
        else:
            os.truncate(path, size)
        log.append(incoming_events(b"3"))
        assert log.position > end
        assert end_position(tmp_path) == log.position
    (added,) = split_ranges(tmp_path, end, log.position, 1 << 20)
    assert [decode_record(text).body for _, text in read_lines(added)] == [b"3"]


def test_rejects_a_second_writer(tmp_path: Path) -> None:
    with LogWriter(tmp_path), pytest.raises(ClewError, match="Another process is writing"), LogWriter(tmp_path):
        pass
    with LogWriter(tmp_path) as log:
        assert log.append(incoming_events(b"1")) == 1


def test_reports_a_log_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ClewError, match=r"Cannot write to the log .*: Not a directory"),
        LogWriter(tmp_path / "file" / "log"),
    ):
        pass


def test_does_not_store_events_that_could_not_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with LogWriter(tmp_path) as log:
        log.append(incoming_events(b"1"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(ClewError, match=r"Input/output error. No event of this batch was stored"):
                log.append(incoming_events(b"2", b"3"))
        assert read_bodies(tmp_path) == [b"1"]
        assert log.append(incoming_events(b"3")) == 1
    assert read_bodies(tmp_path) == [b"1", b"3"]


# Emulates a full disk with the kernel's limit of the file size: 4 KB.
WRITE_WITH_FILE_SIZE_LIMIT = """
import resource, signal, sys
from pathlib import Path
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.errors import ClewError
from clew.events.streams import Stream

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
small, large = (IncomingEvent(Stream.OPENLINEAGE, "test", body) for body in (b"1", b'"' + b"x" * 8000 + b'"'))
with LogWriter(Path(sys.argv[1])) as log:
    log.append([small])
    for _ in range(2):
        try:
            log.append([large])
        except ClewError as error:
            print(error.message.rpartition(": ")[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    print(log.append([large]), log.append([large]))
"""


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY, reason="the file size is limited"
)
def test_stores_an_event_after_a_failed_write(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE_WITH_FILE_SIZE_LIMIT, str(tmp_path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    error = "File too large. No event of this batch was stored."
    assert process.stdout.splitlines() == [error, error, "1 0"], process.stderr
    assert [len(body) for body in read_bodies(tmp_path)] == [1, 8002]


@pytest.mark.parametrize("kept", [0, 1, 60, None])
def test_positions_are_not_reused_after_the_log_was_cut(kept: int | None, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    first, second = ([b'{"n": %d, "of": %d}' % (number, of) for number in range(3)] for of in (1, 2))
    with LogWriter(folder) as log:
        log.append(incoming_events(*first))
    end = end_position(folder)
    path = segment_path(folder, 0)
    if kept is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:kept])
    with LogWriter(folder) as log:
        log.append(incoming_events(*second))
    lines = [line for range_ in split_ranges(folder, end, end_position(folder), 50) for line in read_lines(range_)]
    assert [decode_record(text).body for _, text in lines] == second
    assert min(position for position, _ in lines) == end
