"""Tests of staged segments and their adoption by the log's writer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from clew.collector.file_import import adopt_published
from clew.collector.group_commit import Appender
from clew.errors import ClewError
from clew.eventlog.segments import decode_record, end_position, has_checksum, list_segments, read_lines, split_ranges
from clew.eventlog.staging import (
    StagedSegments,
    delete_unpublished,
    is_imported,
    list_published,
    publish_segments,
    staging_folder,
)
from clew.eventlog.writer import IncomingEvent, LogEntry, LogWriter
from clew.events.streams import Stream

RECEIVED_AT = "2020-02-03T04:05:06.000007+00:00"


def stage(log: Path, *bodies: bytes, name: str = "00", segment_bytes: int = 1 << 20) -> list[Path]:
    with StagedSegments(log, name, "import:marquez", segment_bytes=segment_bytes) as segments:
        for body in bodies:
            segments.add(LogEntry(Stream.OPENLINEAGE, "", body, is_json=body.startswith(b"{")), RECEIVED_AT)
    return segments.paths


def read_log(log: Path) -> list[tuple[int, bytes]]:
    ranges = split_ranges(log, 0, end_position(log), 1 << 30)
    return [(seq, decode_record(text).body) for part in ranges for seq, text in read_lines(part)]


def append(log: LogWriter, body: bytes) -> None:
    log.append([IncomingEvent(Stream.OPENLINEAGE, "test", body)])


def test_adopts_segments_in_order_between_other_events(tmp_path: Path) -> None:
    publish_segments(stage(tmp_path, b'{"a":1}', b'{"a":2}', name="01"))
    publish_segments(stage(tmp_path, b'{"a":0}', name="00"))
    with LogWriter(tmp_path) as log:
        append(log, b'{"b":0}')
        adopt_published(log)
        append(log, b'{"b":1}')
        assert log.position == end_position(tmp_path)
        publish_segments(stage(tmp_path, b'{"a":3}'))
        publish_segments(stage(tmp_path, b'{"a":4}', name="09"))
        adopt_published(log)
    with LogWriter(tmp_path) as log:
        append(log, b'{"b":2}')
    bodies = [body for _, body in read_log(tmp_path)]
    assert bodies == [
        b'{"%s":%d}' % item for item in zip(b"b a a a b a a b".split(), (0, 0, 1, 2, 1, 3, 4, 2), strict=True)
    ]
    positions = [seq for seq, _ in read_log(tmp_path)]
    assert positions == sorted(set(positions))
    assert list_published(tmp_path) == []


def test_a_line_has_the_time_of_receipt_a_checksum_and_the_source(tmp_path: Path) -> None:
    publish_segments(stage(tmp_path, b'{"a":1}', b"\xff"))
    with LogWriter(tmp_path) as log:
        adopt_published(log)
    lines = list_segments(tmp_path)[0].path.read_bytes().splitlines()
    records = [decode_record(line) for line in lines]
    assert [(record.at, record.source, record.body) for record in records] == [
        (RECEIVED_AT, "import:marquez", b'{"a":1}'),
        (RECEIVED_AT, "import:marquez", b"\xff"),
    ]
    assert all(map(has_checksum, lines))
    assert is_imported(records[0].source)
    assert not is_imported("OpenLineage-Python")


def test_segments_have_a_limited_size(tmp_path: Path) -> None:
    assert len(stage(tmp_path, *(b'{"a":%d}' % number for number in range(4)), segment_bytes=1)) == 4


def test_an_error_deletes_the_files(tmp_path: Path) -> None:
    def write_one() -> Iterator[IncomingEvent]:
        yield IncomingEvent(Stream.OPENLINEAGE, "", b"{}")
        raise RuntimeError

    with pytest.raises(RuntimeError), StagedSegments(tmp_path, "00", "marquez") as segments:
        segments.append(write_one())
    assert list(staging_folder(tmp_path).iterdir()) == []


def test_files_of_an_interrupted_import_are_deleted(tmp_path: Path) -> None:
    stage(tmp_path, b"{}")
    published = publish_segments(stage(tmp_path, b"{}", name="01"))
    delete_unpublished(tmp_path)
    assert list(staging_folder(tmp_path).iterdir()) == published


def test_an_empty_file_is_dropped(tmp_path: Path) -> None:
    staging_folder(tmp_path).mkdir(parents=True)
    (staging_folder(tmp_path) / "00.ready").touch()
    with LogWriter(tmp_path) as log:
        adopt_published(log)
        assert log.position == 0
    assert list_published(tmp_path) == []


@pytest.mark.parametrize("events", [0, 1])
def test_a_failed_adoption_can_be_repeated(events: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_segments(stage(tmp_path, b'{"a":0}'))
    with LogWriter(tmp_path) as log:
        for number in range(events):
            append(log, b'{"b":%d}' % number)

        def fail(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(log, "_open_next", fail)
            with pytest.raises(ClewError, match="No space left"):
                adopt_published(log)
        append(log, b'{"b":9}')
        adopt_published(log)
        append(log, b'{"b":10}')
    bodies = [body for _, body in read_log(tmp_path)]
    assert bodies == [*(b'{"b":%d}' % number for number in range(events)), b'{"b":9}', b'{"a":0}', b'{"b":10}']


def test_a_collector_adopts_segments(tmp_path: Path) -> None:
    publish_segments(stage(tmp_path, b'{"a":0}'))

    async def run() -> None:
        with LogWriter(tmp_path) as log:
            async with Appender(log) as appender:
                await appender.store([LogEntry(Stream.OPENLINEAGE, "t", b'{"b":0}', is_json=True)])
                await asyncio.to_thread(adopt_published, appender)
                await appender.store([LogEntry(Stream.OPENLINEAGE, "t", b'{"b":1}', is_json=True)])
                with pytest.raises(ClewError, match="Cannot write"):
                    await asyncio.to_thread(appender.adopt, tmp_path / "missing")

    asyncio.run(run())
    assert [body for _, body in read_log(tmp_path)] == [b'{"b":0}', b'{"a":0}', b'{"b":1}']
