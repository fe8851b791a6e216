"""Tests of group commit on an event loop, with syncs in a helper process."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.disks import BlockedDisk

from clew.collector.fsync_process import FsyncHelper
from clew.collector.group_commit import Appender, CommitStats
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

    def send(self, *read_bodies: bytes) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_done(error: Exception | None) -> None:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

        self.appender.append_nowait([make_entry(body) for body in read_bodies], on_done)
        return future


def make_entry(body: bytes) -> LogEntry:
    return LogEntry.from_event(IncomingEvent(Stream.OPENLINEAGE, "test", body))


@asynccontextmanager
async def open_sender(log: LogWriter) -> AsyncIterator[Sender]:
    groups: list[CommitStats] = []
    with Appender(log, on_commit=groups.append) as appender:
        yield Sender(appender, groups)


def read_bodies(log: LogWriter) -> list[bytes]:
    ranges = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    return [decode_record(text).body for range_ in ranges for _, text in read_lines(range_)]


def fsync_process_ids() -> list[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(child) for child in children if "sync_process" in Path(f"/proc/{child}/cmdline").read_text()]


async def test_groups_events_that_arrive_during_a_sync(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockedDisk(monkeypatch)
    async with open_sender(log) as sender:
        first = sender.send(b"0")
        await asyncio.sleep(0.05)
        others = [sender.send(b"%d" % number) for number in range(1, 5)]
        await asyncio.sleep(0.05)
        others += [sender.send(b"%d" % number) for number in range(5, 9)]
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
        futures = [sender.send(b"%d" % number) for number in range(100)]
        for number, body in enumerate(large):
            futures.append(sender.send(body, b'"beside %d"' % number))
            futures.append(asyncio.wrap_future(sender.appender.submit([make_entry(b'"thread %d"' % number)])))
            await asyncio.sleep(0)
            futures.append(sender.send(b'"small %d"' % number))
        await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_SECONDS)
    assert len(read_bodies(log)) == len(set(read_bodies(log))) == 100 + 4 * len(large)


async def test_drains_pending_events_on_close(log: LogWriter) -> None:
    async with open_sender(log) as sender:
        first = sender.send(b"1")
        await asyncio.sleep(0)
        second = sender.send(b"2")
    assert (first.exception(), second.exception()) == (None, None)
    assert read_bodies(log) == [b"1", b"2"]
    assert fsync_process_ids() == []


async def test_truncates_events_that_could_not_be_synced(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(helper: FsyncHelper, file: int) -> bool:
        finish(helper, file)
        raise OSError(errno.EIO, "Input/output error")

    finish = FsyncHelper.finish
    async with open_sender(log) as sender:
        await asyncio.wait_for(sender.send(b"1"), TIMEOUT_SECONDS)
        with monkeypatch.context() as patch:
            patch.setattr(FsyncHelper, "finish", fail)
            with pytest.raises(ClewError, match=r"Input/output error. No event of this batch was stored"):
                await asyncio.wait_for(sender.send(b"2"), TIMEOUT_SECONDS)
        assert read_bodies(log) == [b"1"]
        await asyncio.wait_for(sender.send(b"2"), TIMEOUT_SECONDS)
        assert [group.is_stored for group in sender.groups] == [True, False, True]
    assert read_bodies(log) == [b"1", b"2"]


async def test_a_failed_truncation_does_not_block_later_events(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    async with open_sender(log) as sender:
        await asyncio.wait_for(sender.send(b"1"), TIMEOUT_SECONDS)
        with monkeypatch.context() as patch:
            patch.setattr(FsyncHelper, "finish", fail)
            patch.setattr(os, "ftruncate", fail)
            with pytest.raises(OSError, match="Input/output error"):
                await asyncio.wait_for(sender.send(b"2"), TIMEOUT_SECONDS)
        await asyncio.wait_for(asyncio.wrap_future(sender.appender.submit([make_entry(b"3")])), TIMEOUT_SECONDS)


async def test_reports_errors_of_the_fsync_process(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    start = FsyncHelper.start
    # A pipe can be passed to the process, but not synced.
    read_end, write_end = os.pipe()
    async with open_sender(log) as sender:
        with monkeypatch.context() as patch:
            patch.setattr(FsyncHelper, "start", lambda helper, _: start(helper, write_end))
            with pytest.raises(ClewError, match=r"Invalid argument. No event of this batch was stored"):
                await asyncio.wait_for(sender.send(b"1"), TIMEOUT_SECONDS)
        await asyncio.wait_for(sender.send(b"1"), TIMEOUT_SECONDS)
    os.close(read_end)
    os.close(write_end)
    assert read_bodies(log) == [b"1"]


@pytest.mark.parametrize("is_busy", [True, False])
async def test_replaces_a_killed_fsync_process(is_busy: bool, log: LogWriter) -> None:
    async with open_sender(log) as sender:
        await asyncio.wait_for(sender.send(b"1"), TIMEOUT_SECONDS)
        (before,) = fsync_process_ids()
        os.kill(before, signal.SIGSTOP if is_busy else signal.SIGKILL)
        future = sender.send(b"2")
        await asyncio.sleep(0.05)
        if is_busy:
            os.kill(before, signal.SIGKILL)
        await asyncio.wait_for(future, TIMEOUT_SECONDS)
        await asyncio.wait_for(sender.send(b"3"), TIMEOUT_SECONDS)
        (after,) = fsync_process_ids()
        assert after != before
    assert read_bodies(log) == [b"1", b"2", b"3"]


async def test_replaces_an_unreachable_fsync_process(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ETOOMANYREFS, "Too many references")

    async with open_sender(log) as sender:
        with monkeypatch.context() as patch:
            patch.setattr("clew.collector.fsync_process.socket.send_fds", fail)
            await asyncio.wait_for(sender.send(b"1"), TIMEOUT_SECONDS)
        await asyncio.wait_for(sender.send(b"2"), TIMEOUT_SECONDS)
        assert len(fsync_process_ids()) == 1
    assert read_bodies(log) == [b"1", b"2"]


async def test_syncs_in_a_thread_if_no_process_can_start(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("clew.collector.fsync_process.subprocess.Popen", fail)
    async with open_sender(log) as sender:
        await asyncio.wait_for(asyncio.gather(sender.send(b"1"), sender.send(b"2")), TIMEOUT_SECONDS)
    assert read_bodies(log) == [b"1", b"2"]
