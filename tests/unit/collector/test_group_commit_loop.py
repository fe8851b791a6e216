"""Tests of group commit for the requests of an event loop."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.disks import BlockedDisk

from clew.collector import group_commit
from clew.collector.group_commit import Appender, CommitStats, OverloadedError
from clew.errors import ClewError
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import IncomingEvent, LogEntry, LogWriter
from clew.events.streams import Stream

TIMEOUT_SECONDS = 20
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log", segment_bytes=2000) as writer:
        yield writer


class Sender:
    """Appends events on the running loop."""

    def __init__(self, appender: Appender, groups: list[CommitStats]) -> None:
        self.appender = appender
        self.groups = groups

    def send(self, *read_bodies: bytes) -> asyncio.Task[None]:
        return asyncio.create_task(self.appender.store([make_entry(body) for body in read_bodies]))


def make_entry(body: bytes) -> LogEntry:
    return LogEntry.from_event(IncomingEvent(Stream.OPENLINEAGE, "test", body))


@asynccontextmanager
async def open_sender(log: LogWriter) -> AsyncIterator[Sender]:
    groups: list[CommitStats] = []
    async with Appender(log, on_commit=groups.append) as appender:
        yield Sender(appender, groups)


def read_bodies(log: LogWriter) -> list[bytes]:
    ranges = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    return [decode_record(text).body for range_ in ranges for _, text in read_lines(range_)]


async def test_groups_events_that_arrive_during_a_sync(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockedDisk(monkeypatch)
    async with open_sender(log) as sender:
        first = sender.send(b"0")
        await asyncio.sleep(0.05)
        others = [sender.send(b"%d" % number) for number in range(1, 5)]
        await asyncio.sleep(0.05)
        others += [sender.send(b"%d" % number) for number in range(5, 9)]
        await asyncio.sleep(0.05)
        assert sender.appender.pending_bytes == 8
        assert not any(future.done() for future in (first, *others))
        disk.release()
        await asyncio.wait_for(asyncio.gather(first, *others), TIMEOUT_SECONDS)
        assert [group.events for group in sender.groups] == [1, 8]
        assert sender.appender.pending_bytes == 0
    assert read_bodies(log) == [b"%d" % number for number in range(9)]


async def test_starts_segments_between_groups(log: LogWriter) -> None:
    async with open_sender(log) as sender:
        for number in range(30):
            await asyncio.wait_for(sender.send(b'"%d %s"' % (number, b"x" * 500)), TIMEOUT_SECONDS)
    assert [int(body[1:].split()[0]) for body in read_bodies(log)] == list(range(30))
    assert len(list(log.folder.glob("*.ndjson"))) > 5


async def test_threads_and_large_groups_are_not_starved(log: LogWriter) -> None:
    async with open_sender(log) as sender:
        large = [b'"%d %s"' % (number, b"y" * 300_000) for number in range(8)]
        futures: list[asyncio.Future[None]] = [sender.send(b"%d" % number) for number in range(100)]
        for number, body in enumerate(large):
            futures.append(sender.send(body, b'"beside %d"' % number))
            futures.append(asyncio.wrap_future(sender.appender.submit([make_entry(b'"thread %d"' % number)])))
            await asyncio.sleep(0)
            futures.append(sender.send(b'"small %d"' % number))
        await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_SECONDS)
    assert len(read_bodies(log)) == len(set(read_bodies(log))) == 100 + 4 * len(large)


async def test_drains_queued_events_on_close(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockedDisk(monkeypatch)
    async with open_sender(log) as sender:
        first = sender.send(b"1")
        await asyncio.sleep(0.05)
        second = sender.send(b"2")
        await asyncio.sleep(0.05)
        threading.Timer(0.1, disk.release).start()
    assert read_bodies(log) == [b"1", b"2"]
    await asyncio.wait_for(asyncio.gather(first, second), TIMEOUT_SECONDS)


async def test_stores_events_of_the_last_loop_iteration_on_close(log: LogWriter) -> None:
    async with open_sender(log) as sender:
        last = sender.send(b"1")
        await asyncio.sleep(0)
    await asyncio.wait_for(last, TIMEOUT_SECONDS)
    with pytest.raises(OverloadedError, match="shutting down"):
        await asyncio.wait_for(sender.send(b"2"), TIMEOUT_SECONDS)
    assert read_bodies(log) == [b"1"]


async def test_truncates_events_that_could_not_be_synced(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_sender(log) as sender:
        await asyncio.wait_for(sender.send(b"1"), TIMEOUT_SECONDS)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", raise_io_error)
            with pytest.raises(ClewError, match=r"Input/output error. No event of this batch was stored"):
                await asyncio.wait_for(sender.send(b"2"), TIMEOUT_SECONDS)
        assert read_bodies(log) == [b"1"]
        await asyncio.wait_for(sender.send(b"2"), TIMEOUT_SECONDS)
        assert [group.is_stored for group in sender.groups] == [True, False, True]
    assert read_bodies(log) == [b"1", b"2"]


async def test_a_failed_truncation_does_not_block_later_events(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_sender(log) as sender:
        await asyncio.wait_for(sender.send(b"1"), TIMEOUT_SECONDS)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", raise_io_error)
            patch.setattr(os, "ftruncate", raise_io_error)
            with pytest.raises(OSError, match="Input/output error"):
                await asyncio.wait_for(sender.send(b"2"), TIMEOUT_SECONDS)
        await asyncio.wait_for(asyncio.wrap_future(sender.appender.submit([make_entry(b"3")])), TIMEOUT_SECONDS)


def raise_io_error(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


async def test_reports_an_error_to_all_requests_of_a_group(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_sender(log) as sender:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", raise_io_error)
            results = await asyncio.gather(
                *(sender.send(b"%d" % number) for number in range(3)), return_exceptions=True
            )
        assert [str(error).partition(":")[0] for error in results] == [f"Cannot write to the log {log.folder}"] * 3
        assert [group.events for group in sender.groups] == [3]


async def test_each_request_has_the_full_timeout(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "ACK_TIMEOUT_SECONDS", 0.4)
    disk = BlockedDisk(monkeypatch)
    async with open_sender(log) as sender:
        early = sender.send(b"1")
        await asyncio.sleep(0.25)
        late = sender.send(b"2")
        with pytest.raises(OverloadedError, match="Timed out"):
            await asyncio.wait_for(early, TIMEOUT_SECONDS)
        assert not late.done()
        disk.release()
        await asyncio.wait_for(late, TIMEOUT_SECONDS)
    assert read_bodies(log) == [b"1", b"2"]


async def test_a_cancelled_request_does_not_affect_its_group(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockedDisk(monkeypatch)
    async with open_sender(log) as sender:
        cancelled, other = sender.send(b"1"), sender.send(b"2")
        await asyncio.sleep(0.05)
        cancelled.cancel()
        await asyncio.sleep(0)
        assert cancelled.cancelled()
        disk.release()
        await asyncio.wait_for(other, TIMEOUT_SECONDS)
    assert read_bodies(log) == [b"1", b"2"]
