"""Tests of appending staged segments to the log, directly and through a collector."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clew.collector.file_import import tail_streams
from clew.collector.group_commit import Appender
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.staging import StagedSegments, list_published, publish_segments
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.importer import handover
from clew.importer.handover import LogHandover


def stage(home: DataDir, name: str, *bodies: bytes) -> list[Path]:
    with StagedSegments(home.log, name, "import:test") as segments:
        segments.append(IncomingEvent(Stream.OPENLINEAGE, "", body) for body in bodies)
    return segments.paths


def bodies(home: DataDir) -> list[bytes]:
    ranges = split_ranges(home.log, 0, end_position(home.log), 1 << 30)
    return [decode_record(text).body for part in ranges for _, text in read_lines(part)]


@contextmanager
def run_collector(home: DataDir) -> Iterator[None]:
    """Run the parts of a collector that hold the log, in a thread."""
    is_ready, stop = threading.Event(), threading.Event()

    async def run() -> None:
        with LogWriter(home.log) as log:
            async with Appender(log) as appender, tail_streams(home.streams, appender, lambda _: None):
                is_ready.set()
                await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert is_ready.wait(10)
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_appends_directly_if_nobody_holds_the_log(tmp_path: Path) -> None:
    home = DataDir(tmp_path)
    with LogHandover(home) as log:
        assert log.is_direct
        log.append(stage(home, "00", b'{"a":0}', b'{"a":1}'))
        log.append(stage(home, "01", b'{"a":2}'))
        log.append([])
    assert bodies(home) == [b'{"a":0}', b'{"a":1}', b'{"a":2}']


def test_a_collector_appends_what_is_published(tmp_path: Path) -> None:
    home = DataDir(tmp_path)
    with run_collector(home), LogHandover(home) as log:
        assert not log.is_direct
        log.append(stage(home, "00", b'{"a":0}'))
        assert bodies(home) == [b'{"a":0}']
        log.append(stage(home, "01", b'{"a":1}'))
    assert bodies(home) == [b'{"a":0}', b'{"a":1}']


def test_segments_of_a_stopped_collector_are_appended(tmp_path: Path) -> None:
    home = DataDir(tmp_path).create()
    unpublished = stage(home, "00", b'{"a":0}')
    publish_segments(stage(home, "01", b'{"a":1}'))
    with LogHandover(home) as log:
        assert bodies(home) == [b'{"a":1}']
        assert not unpublished[0].exists()
        log.append(stage(home, "00", b'{"a":2}'))
    assert bodies(home) == [b'{"a":1}', b'{"a":2}']


def test_takes_over_when_the_collector_stops(tmp_path: Path) -> None:
    home = DataDir(tmp_path)
    with LogWriter(home.log) as writer:
        with LogHandover(home) as log:
            published = stage(home, "00", b'{"a":0}')
            threading.Timer(0.2, lambda: writer.__exit__(None, None, None)).start()
            log.append(published)
            assert log.is_direct
            assert bodies(home) == [b'{"a":0}']
        writer.__enter__()


def test_a_collector_that_appends_nothing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = DataDir(tmp_path)
    monkeypatch.setattr(handover, "_STALLED_SECONDS", 0.2)
    with LogWriter(home.log), LogHandover(home) as log:
        with pytest.raises(ClewError, match="does not append the imported events"):
            log.append(stage(home, "00", b'{"a":0}'))
        # They are not lost: the next writer appends them.
        assert len(list_published(home.log)) == 1
