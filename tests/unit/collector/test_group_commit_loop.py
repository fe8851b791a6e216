"""What a loop brings is written there and synced by another process, whatever becomes of that."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.disks import HeldDisk

from clew.collector.fsync_process import FsyncHelper
from clew.collector.group_commit import Appender, CommitStats
from clew.errors import ClewError
from clew.eventlog.segments import decode_record, end_position, read_lines, split_ranges
from clew.eventlog.writer import IncomingEvent, LogEntry, LogWriter
from clew.events.streams import Stream

SECONDS = 20
pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log", segment_bytes=2000) as opened:
        yield opened


class Sender:
    """Brings events to an appender on the running loop."""

    def __init__(self, appender: Appender, groups: list[CommitStats]) -> None:
        self.appender = appender
        self.groups = groups

    def send(self, *bodies: bytes) -> asyncio.Future[None]:
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def then(fault: Exception | None) -> None:
            if fault is None:
                stored.set_result(None)
            else:
                stored.set_exception(fault)

        self.appender.append_nowait([entry(body) for body in bodies], then)
        return stored


def entry(body: bytes) -> LogEntry:
    return LogEntry.from_event(IncomingEvent(Stream.OPENLINEAGE, "test", body))


@asynccontextmanager
async def sender(log: LogWriter) -> AsyncIterator[Sender]:
    groups: list[CommitStats] = []
    with Appender(log, on_commit=groups.append) as appender:
        yield Sender(appender, groups)


def bodies(log: LogWriter) -> list[bytes]:
    parts = split_ranges(log.folder, 0, end_position(log.folder), 1 << 30)
    return [decode_record(text).body for part in parts for _, text in read_lines(part)]


def syncing_processes() -> list[int]:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(child) for child in children if "sync_process" in Path(f"/proc/{child}/cmdline").read_text()]


async def test_what_comes_while_it_syncs_is_the_next_group(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = HeldDisk(monkeypatch)
    async with sender(log) as one:
        first = one.send(b"0")
        await asyncio.sleep(0.05)
        others = [one.send(b"%d" % number) for number in range(1, 5)]
        await asyncio.sleep(0.05)
        others += [one.send(b"%d" % number) for number in range(5, 9)]
        assert one.appender.pending_bytes == 8
        assert not any(sent.done() for sent in (first, *others))
        disk.let_go()
        await asyncio.wait_for(asyncio.gather(first, *others), SECONDS)
        assert [group.events for group in one.groups] == [1, 8]
        assert one.appender.pending_bytes == 0
    assert bodies(log) == [b"%d" % number for number in range(9)]


async def test_segments_change_between_groups(log: LogWriter) -> None:
    async with sender(log) as one:
        for number in range(30):
            await asyncio.wait_for(one.send(b'"%d %s"' % (number, b"x" * 500)), SECONDS)
    assert [int(body[1:].split()[0]) for body in bodies(log)] == list(range(30))
    assert len(list(log.folder.glob("*.ndjson"))) > 5


async def test_threads_and_large_groups_have_their_turn(log: LogWriter) -> None:
    async with sender(log) as one:
        large = [b'"%d %s"' % (number, b"y" * 300_000) for number in range(8)]
        sent = [one.send(b"%d" % number) for number in range(100)]
        for place, body in enumerate(large):
            sent.append(one.send(body, b'"beside %d"' % place))
            sent.append(asyncio.wrap_future(one.appender.submit([entry(b'"thread %d"' % place)])))
            await asyncio.sleep(0)
            sent.append(one.send(b'"small %d"' % place))
        await asyncio.wait_for(asyncio.gather(*sent), SECONDS)
    assert len(bodies(log)) == len(set(bodies(log))) == 100 + 4 * len(large)


async def test_it_drains_what_has_just_come(log: LogWriter) -> None:
    async with sender(log) as one:
        first = one.send(b"1")
        await asyncio.sleep(0)
        second = one.send(b"2")
    assert (first.exception(), second.exception()) == (None, None)
    assert bodies(log) == [b"1", b"2"]
    assert syncing_processes() == []


async def test_what_could_not_be_synced_is_taken_back(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(syncer: FsyncHelper, file: int) -> bool:
        end(syncer, file)
        raise OSError(errno.EIO, "Input/output error")

    end = FsyncHelper.finish
    async with sender(log) as one:
        await asyncio.wait_for(one.send(b"1"), SECONDS)
        with monkeypatch.context() as changed:
            changed.setattr(FsyncHelper, "finish", failing)
            with pytest.raises(ClewError, match=r"Input/output error. No event of this batch was stored"):
                await asyncio.wait_for(one.send(b"2"), SECONDS)
        assert bodies(log) == [b"1"]
        await asyncio.wait_for(one.send(b"2"), SECONDS)
        assert [group.is_stored for group in one.groups] == [True, False, True]
    assert bodies(log) == [b"1", b"2"]


async def test_a_log_that_cannot_be_cut_holds_up_nobody(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    async with sender(log) as one:
        await asyncio.wait_for(one.send(b"1"), SECONDS)
        with monkeypatch.context() as changed:
            changed.setattr(FsyncHelper, "finish", failing)
            changed.setattr(os, "ftruncate", failing)
            with pytest.raises(OSError, match="Input/output error"):
                await asyncio.wait_for(one.send(b"2"), SECONDS)
        await asyncio.wait_for(asyncio.wrap_future(one.appender.submit([entry(b"3")])), SECONDS)


async def test_the_process_tells_of_a_fault(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = FsyncHelper.start
    # A pipe can be handed over, but not synced.
    reading, writing = os.pipe()
    async with sender(log) as one:
        with monkeypatch.context() as changed:
            changed.setattr(FsyncHelper, "start", lambda syncer, _: begin(syncer, writing))
            with pytest.raises(ClewError, match=r"Invalid argument. No event of this batch was stored"):
                await asyncio.wait_for(one.send(b"1"), SECONDS)
        await asyncio.wait_for(one.send(b"1"), SECONDS)
    os.close(reading)
    os.close(writing)
    assert bodies(log) == [b"1"]


@pytest.mark.parametrize("is_busy", [True, False])
async def test_a_killed_process_is_replaced(is_busy: bool, log: LogWriter) -> None:
    async with sender(log) as one:
        await asyncio.wait_for(one.send(b"1"), SECONDS)
        (before,) = syncing_processes()
        os.kill(before, signal.SIGSTOP if is_busy else signal.SIGKILL)
        sent = one.send(b"2")
        await asyncio.sleep(0.05)
        if is_busy:
            os.kill(before, signal.SIGKILL)
        await asyncio.wait_for(sent, SECONDS)
        await asyncio.wait_for(one.send(b"3"), SECONDS)
        (after,) = syncing_processes()
        assert after != before
    assert bodies(log) == [b"1", b"2", b"3"]


async def test_a_process_that_cannot_be_asked_is_replaced(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise OSError(errno.ETOOMANYREFS, "Too many references")

    async with sender(log) as one:
        with monkeypatch.context() as changed:
            changed.setattr("clew.collector.fsync_process.socket.send_fds", refused)
            await asyncio.wait_for(one.send(b"1"), SECONDS)
        await asyncio.wait_for(one.send(b"2"), SECONDS)
        assert len(syncing_processes()) == 1
    assert bodies(log) == [b"1", b"2"]


async def test_without_a_process_a_thread_does_it(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("clew.collector.fsync_process.subprocess.Popen", refused)
    async with sender(log) as one:
        await asyncio.wait_for(asyncio.gather(one.send(b"1"), one.send(b"2")), SECONDS)
    assert bodies(log) == [b"1", b"2"]
