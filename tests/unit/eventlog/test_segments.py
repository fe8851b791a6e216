"""Tests of log segments, byte ranges and records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clew.eventlog.retention import overwrite_lines
from clew.eventlog.segments import (
    SegmentRange,
    complete_size,
    decode_record,
    end_position,
    is_damaged,
    list_paths,
    list_segments,
    parse_record_fast,
    read_lines,
    record_event_id,
    replace_event,
    segment_path,
    split_ranges,
)
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.ids import event_id
from clew.events.streams import Stream

texts = st.lists(st.binary(max_size=30).map(lambda text: text.replace(b"\n", b"?").replace(b" ", b"?")), max_size=12)


def write_segments(folder: Path, files: list[list[bytes]], torn: bytes = b"") -> list[tuple[int, bytes]]:
    """Write segments of lines, and return each line with its position."""
    position, expected = 0, []
    for index, lines in enumerate(files):
        path, offset = segment_path(folder, position), position
        path.write_bytes(b"".join(line + b"\n" for line in lines) + (torn if index == len(files) - 1 else b""))
        for line in lines:
            expected.append((offset, line))
            offset += len(line) + 1
        position = offset
    return expected


@given(st.lists(texts.filter(bool), min_size=1, max_size=3), st.binary(max_size=9), st.integers(1, 80), st.data())
def test_reads_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[bytes]], torn: bytes, target: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    expected = write_segments(folder, files, torn.replace(b"\n", b"?"))
    end = end_position(folder)
    cuts = sorted(data.draw(st.sets(st.integers(0, end), max_size=4)))
    bounds = zip([0, *cuts], [*cuts, end], strict=True)
    ranges = [range_ for start, stop in bounds for range_ in split_ranges(folder, start, stop, target)]
    assert [line for range_ in ranges for line in read_lines(range_)] == expected
    assert all(range_.end - range_.start <= target for range_ in ranges)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"a", 0),
        (b"a\nb", 2),
        (b"a\n" + b"b" * 70_000, 2),
        (b"a" * 70_000 + b"\n" + b"b" * 140_000, 70_001),
        (b"a" * 65_536 + b"\n", 65_537),
    ],
)
def test_complete_size_excludes_a_torn_tail(text: bytes, size: int, tmp_path: Path) -> None:
    path = tmp_path / "segment"
    path.write_bytes(text)
    assert complete_size(path) == size


def test_a_folder_without_segments_is_an_empty_log(tmp_path: Path) -> None:
    (tmp_path / "intake.json").touch()
    for folder in (tmp_path, tmp_path / "missing"):
        assert list_segments(folder) == []
        assert end_position(folder) == 0
        assert split_ranges(folder, 0, 100, 10) == []


def test_an_empty_last_segment_has_no_range(tmp_path: Path) -> None:
    write_segments(tmp_path, [[b"one", b"two"], []])
    assert end_position(tmp_path) == 8
    assert [range_.end for range_ in split_ranges(tmp_path, 0, 8, 100)] == [8]


def test_does_not_read_beyond_the_end_of_a_range(tmp_path: Path) -> None:
    write_segments(tmp_path, [[b"one", b"two"]])
    range_ = SegmentRange(str(segment_path(tmp_path, 0)), 0, 0, 4)
    assert list(read_lines(range_)) == [(0, b"one")]


HEAD = b'{"at":"2026-01-01T00:00:00+00:00","stream":"openlineage","source":"s"'
ID = "0123456789abcdef" * 2


@pytest.mark.parametrize(("id_field", "expected_id"), [(b"", None), (b',"id":"%s"' % ID.encode(), ID)])
def test_fast_parser_reads_records_of_the_writer(id_field: bytes, expected_id: str | None) -> None:
    text = HEAD + id_field + b',"event":{"a":{"b":1}}}'
    record = parse_record_fast(text)
    assert record == decode_record(text)
    assert record is not None
    assert (record.id, record.body) == (expected_id, b'{"a":{"b":1}}')


@pytest.mark.parametrize("id_field", [b"", b',"id":null', b',"id":""', b',"id":"mine"', b',"id":"%s0"' % ID.encode()])
def test_computes_a_missing_or_invalid_id(id_field: bytes) -> None:
    assert record_event_id(HEAD + id_field + b',"event":{"a":1}}') == event_id(b'{"a":1}')


def test_uses_the_id_of_the_record() -> None:
    assert record_event_id(HEAD + b',"id":"%s","event":{"a":1}}' % ID.encode()) == ID


@pytest.mark.parametrize(
    "text",
    [
        HEAD + b"}",
        HEAD + b',"event":5}',
        HEAD + b',"event": {"a":1}}',
        HEAD + b',"event":{"a":1} }',
        HEAD + b',"event":{"a":1},"event":{"b":2}}',
        HEAD + b',"event":{"a":1},"bytes":"eA==","x":{}}',
        HEAD + b',"bytes":"eA==","event":{"a":1}}',
        HEAD + b',"x":{"y":1,"event":{"a":1}}',
        HEAD + b',"id":"' + b"0" * 31 + b'","event":{"a":1}}',
        HEAD + b',"id":"' + b"0" * 32 + b'","x":1,"event":{"a":1}}',
        HEAD + b',"id":"' + b"0" * 31 + b'\xff","event":{"a":1}}',
        HEAD + b',"id":7,"event":{"a":1}}',
        HEAD + b',"id":"' + b"0" * 32 + b'","event":{"a":1}}}',
        HEAD + b',"event":{"a":1}}}',
        HEAD + b',"event":{"a":{}',
        HEAD + b',"event":{}}',
        b'{"stream":"openlineage","source":"s","event":{"a":{}}}',
        b'{"at":"soon","stream":"openlineage","source":"s","event":{"a":{}}}',
        b'{"at":"2026-01-01","stream":"openlineage","source":"\xff","event":{"a":{}}}',
        b',"event":{}}',
        b"",
    ],
)
def test_fast_parser_rejects_other_records(text: bytes) -> None:
    record = parse_record_fast(text)
    assert record is None or not is_json(record.body) or record == decode_record(text)


def is_json(body: bytes) -> bool:
    """Whether a body is valid JSON."""
    try:
        msgspec.json.decode(body)
    except msgspec.DecodeError:
        return False
    return True


def write_event(folder: Path, body: bytes) -> bytes:
    with LogWriter(folder) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", body)])
    return list_paths(folder)[-1].read_bytes().splitlines()[-1]


def test_a_replaced_event_has_the_size_and_the_id_of_the_old_one(tmp_path: Path) -> None:
    line = write_event(tmp_path, b'{"a":1,"secret":"x"}')
    replaced = replace_event(line, b'{"a":1}')
    assert len(replaced) == len(line)
    assert b"secret" not in replaced
    record = parse_record_fast(replaced)
    assert record is not None
    assert not is_damaged(replaced)
    assert msgspec.json.decode(record.body) == {"a": 1}
    assert record.id == decode_record(line).id == event_id(b'{"a":1,"secret":"x"}')
    assert record.at == decode_record(line).at


@pytest.mark.parametrize("body", [b"", b'{"a":1,"secret":"x","b":2}'], ids=["none", "longer"])
def test_an_event_without_replacement_is_not_read(tmp_path: Path, body: bytes) -> None:
    line = write_event(tmp_path, b'{"a":1,"secret":"x"}')
    write_event(tmp_path, b'{"a":2}')
    path = list_paths(tmp_path)[0]
    assert overwrite_lines(path, lambda offset, text: text if offset else replace_event(text, body)) == 1
    assert end_position(tmp_path) == path.stat().st_size
    (part,) = split_ranges(tmp_path, 0, end_position(tmp_path), 1 << 20)
    assert [position for position, _ in read_lines(part)] == [len(line) + 1]
