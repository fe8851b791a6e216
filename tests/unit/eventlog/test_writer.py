"""The log keeps what it has acknowledged, once, byte for byte."""

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
from clew.eventlog import segments as segments_of_log
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


def received(*bodies: bytes) -> list[IncomingEvent]:
    return [IncomingEvent(Stream.OPENLINEAGE, "test", body) for body in bodies]


def lines(folder: Path) -> list[LogRecord]:
    parts = split_ranges(folder, 0, end_position(folder), 1 << 20)
    return [decode_record(text) for part in parts for _, text in read_lines(part)]


def bodies(folder: Path) -> list[bytes]:
    return [line.body for line in lines(folder)]


def test_what_has_been_read_is_let_go_and_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_of_log, "_RELEASE_BYTES", 10_000)
    sent = [b'"%d %s"' % (number, b"x" * (number * 997 % 30_000)) for number in range(200)]
    with LogWriter(tmp_path) as log:
        log.append(received(*sent))
    parts = split_ranges(tmp_path, 0, end_position(tmp_path), 700_000)
    assert len(parts) > 3
    assert [decode_record(text).body for part in parts for _, text in read_lines(part)] == sent


@pytest.mark.parametrize("most", [1, 7, 100, 5000])
def test_what_is_taken_piece_by_piece_is_whole(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reluctant(file: int, parts: Sequence[bytes]) -> int:
        return os.write(file, b"".join(parts)[:most])

    monkeypatch.setattr(os, "writev", reluctant)
    sent = [b'"%d %s"' % (number, b"x" * number) for number in range(30)]
    with LogWriter(tmp_path) as log:
        log.append(received(*sent, b"no json"))
    assert bodies(tmp_path) == [*sent, b"no json"]


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        (b'{"a": 1}', b'{"a": 1}'),
        (b'  {"a" :  1.50, "a": "\\u00e9"}\t', b'{"a" :  1.50, "a": "\\u00e9"}'),
        (b'{\r\n  "a": 1\n}\n', b'{    "a": 1 }'),
        ('{"ä": "ö"}'.encode(), '{"ä": "ö"}'.encode()),
        (b"null", b"null"),
        # What is no JSON keeps every byte, line breaks and all.
        (b"not\njson\r\n", b"not\njson\r\n"),
        (b'{"a": "x\ny"}', b'{"a": "x\ny"}'),
        (b"\xff\xfe\x00", b"\xff\xfe\x00"),
        (b'{"a": "\xe9"}', b'{"a": "\xe9"}'),
        (b'{"a": NaN}', b'{"a": NaN}'),
        (b"[" * 10_000 + b"]" * 10_000, b"[" * 10_000 + b"]" * 10_000),
    ],
)
def test_a_body_comes_back(body: bytes, stored: bytes, tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        assert log.append(received(body)) == 1
    assert bodies(tmp_path) == [stored]
    assert segment_path(tmp_path, 0).read_bytes().count(b"\n") == 1


@given(st.lists(st.binary(min_size=1), unique=True, max_size=20))
def test_any_bytes_come_back(tmp_path_factory: pytest.TempPathFactory, sent: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("log")
    with LogWriter(folder, segment_bytes=200) as log:
        stored = sum(log.append(received(body)) for body in sent)
    found = bodies(folder)
    assert len(found) == stored
    assert set(found) <= {*sent, *(body.strip(b" \t\r\n") for body in sent)}


def test_a_line_says_when_and_whence(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        log.append([IncomingEvent(Stream.RUNTIME, "6ac33987/marimo_runtime.jsonl", b"{}"), *received(b"no json")])
    texts = [msgspec.json.decode(text) for text in segment_path(tmp_path, 0).read_bytes().splitlines()]
    known = {"at", "stream", "source", "id"}
    assert [set(text) for text in texts] == [known | {"event"}, known | {"bytes"}]
    assert (texts[0]["stream"], texts[0]["source"]) == ("runtime", "6ac33987/marimo_runtime.jsonl")
    assert [text["id"] for text in texts] == [event_id(b"{}"), event_id(b"no json")]


def test_empty_bodies_are_no_events(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        assert log.append(received(b"")) == 0
    assert bodies(tmp_path) == []


def test_an_event_sent_again_is_stored_once(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        assert log.append(received(b"1", b"2", b"1", b" 1 \n", b"no json", b"no json")) == 3
        assert log.append(received(b"2", b"3")) == 1
    with LogWriter(tmp_path) as log:
        assert log.append(received(b"1", b"3", b"no json", b"4")) == 1
    assert bodies(tmp_path) == [b"1", b"2", b"no json", b"3", b"4"]


def test_only_the_last_events_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.eventlog.writer._DEDUP_WINDOW_EVENTS", 2)
    with LogWriter(tmp_path) as log:
        log.append(received(b"1", b"2", b"3"))
        assert log.append(received(b"1", b"3")) == 1


@pytest.mark.parametrize("torn", [b"{", b'{"at":"2026"', b"x" * 200_000])
def test_a_torn_tail_is_ignored_and_cut_off_at_the_next_opening(torn: bytes, tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        log.append(received(b"1"))
        end = log.position
    with segment_path(tmp_path, 0).open("ab") as file:
        file.write(torn)
    assert bodies(tmp_path) == [b"1"]
    assert end_position(tmp_path) == end
    with LogWriter(tmp_path) as log:
        assert log.position == end
        log.append(received(b"2"))
    assert bodies(tmp_path) == [b"1", b"2"]


def test_segments_follow_each_other_without_a_gap(tmp_path: Path) -> None:
    sent = [b"%d" % number for number in range(50)]
    for body in sent:
        with LogWriter(tmp_path, segment_bytes=300) as log:
            log.append(received(body))
    found = list_segments(tmp_path)
    assert len(found) > 5
    assert [segment.end for segment in found[:-1]] == [segment.base for segment in found[1:]]
    assert bodies(tmp_path) == sent
    with LogWriter(tmp_path, segment_bytes=300) as log:
        assert log.append(received(*sent)) == 0


def test_a_segment_ends_when_it_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for hours in (0, 23, 24, 25, 49, 50):
        moment = start + timedelta(hours=hours)
        monkeypatch.setattr("clew.eventlog.writer.datetime", SimpleNamespace(now=lambda _, moment=moment: moment))
        # Opened anew each time: what counts is when its first event came, not when it was opened.
        with LogWriter(tmp_path, segment_age=timedelta(days=1)) as log:
            log.append(received(b"%d" % hours))
    held = [path.read_bytes().count(b"\n") for path in sorted(tmp_path.glob("*.ndjson"))]
    assert held == [2, 2, 2]
    assert bodies(tmp_path) == [b"0", b"23", b"24", b"25", b"49", b"50"]


def test_a_segment_that_cannot_be_begun_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LogWriter(tmp_path, segment_bytes=1) as log:
        log.append(received(b"1"))
        with monkeypatch.context() as full:
            full.setattr("clew.eventlog.writer._sync_folder", no_room)
            for _ in range(2):
                with pytest.raises(ClewError, match="No space left"):
                    log.append(received(b"2"))
        assert log.append(received(b"2", b"3")) == 2
    assert bodies(tmp_path) == [b"1", b"2", b"3"]


def no_room(_: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_line_that_nobody_wrote_is_an_event_itself(tmp_path: Path) -> None:
    appended = [b'{"eventTime": "2026-01-01T10:00:00Z"}', b"garbage", b'{"at":"?","stream":"s","source":"t","event":1}']
    segment_path(tmp_path, 0).write_bytes(b"".join(line + b"\n" for line in appended))
    assert bodies(tmp_path) == appended
    assert {line.source for line in lines(tmp_path)} == {"log"}
    with LogWriter(tmp_path) as log:
        assert log.append(received(b"garbage", b"2")) == 1


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with LogWriter(tmp_path), pytest.raises(ClewError, match="Another process is writing"), LogWriter(tmp_path):
        pass
    with LogWriter(tmp_path) as log:
        assert log.append(received(b"1")) == 1


def test_a_log_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ClewError, match=r"Cannot write to the log .*: Not a directory"),
        LogWriter(tmp_path / "file" / "log"),
    ):
        pass


def test_what_could_not_be_synced_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: int) -> None:
        raise OSError(5, "Input/output error")

    with LogWriter(tmp_path) as log:
        log.append(received(b"1"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", failing)
            with pytest.raises(ClewError, match=r"Input/output error. No event of this batch was stored"):
                log.append(received(b"2", b"3"))
        assert bodies(tmp_path) == [b"1"]
        assert log.append(received(b"3")) == 1
    assert bodies(tmp_path) == [b"1", b"3"]


# A full disk, as the kernel tells of one: no file may grow beyond 4 KB.
WRITE_BEYOND_THE_LIMIT = """
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
        except ClewError as fault:
            print(fault.message.rpartition(": ")[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
    print(log.append([large]), log.append([large]))
"""


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY, reason="files are limited")
def test_what_was_not_stored_is_not_remembered(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITE_BEYOND_THE_LIMIT, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    refused = "File too large. No event of this batch was stored."
    assert ended.stdout.splitlines() == [refused, refused, "1 0"], ended.stderr
    assert [len(body) for body in bodies(tmp_path)] == [1, 8002]
