"""Tests of group commit for other threads: one sync for many events, and its result for each caller."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.support.disks import BlockedDisk

from clew.collector import group_commit
from clew.collector.group_commit import Appender, CommitStats, OverloadedError
from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogEntry, LogWriter
from clew.events.streams import Stream

TIMEOUT_SECONDS = 20
pytestmark = pytest.mark.anyio


def make_entry(number: int, size: int = 10) -> LogEntry:
    return LogEntry.from_event(
        IncomingEvent(Stream.OPENLINEAGE, "test", b'{"n": %d, "x": "%s"}' % (number, b"x" * size))
    )


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LogWriter]:
    with LogWriter(tmp_path / "log") as writer:
        yield writer


async def wait_for_sync(disk: BlockedDisk) -> None:
    assert await asyncio.to_thread(disk.fsync_requested.wait, TIMEOUT_SECONDS)


async def test_writes_queued_entries_as_one_group(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockedDisk(monkeypatch)
    groups: list[CommitStats] = []
    async with Appender(log, on_commit=groups.append) as appender:
        first = appender.submit([make_entry(0)])
        await wait_for_sync(disk)
        others = [appender.submit([make_entry(number), make_entry(-number)]) for number in range(1, 9)]
        # `submit` queues on the event loop.
        await asyncio.sleep(0.05)
        assert not any(future.done() for future in (first, *others))
        disk.release()
        for future in (first, *others):
            await asyncio.to_thread(future.result, TIMEOUT_SECONDS)
    assert [group.events for group in groups] == [1, 16]


async def test_appends_from_a_thread(log: LogWriter) -> None:
    async with Appender(log) as appender:
        event = IncomingEvent(Stream.OPENLINEAGE, "test", b"1")
        assert await asyncio.to_thread(appender.append, [event]) == 1
    assert log.append([event]) == 0


async def test_threads_have_no_deadline(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "ACK_TIMEOUT_SECONDS", 0.1)
    disk = BlockedDisk(monkeypatch)
    async with Appender(log) as appender:
        futures = [appender.submit([make_entry(number)]) for number in range(2)]
        with pytest.raises(OverloadedError, match="Timed out"):
            await appender.store([make_entry(2)])
        assert not any(future.done() for future in futures)
        disk.release()
        for future in futures:
            await asyncio.to_thread(future.result, TIMEOUT_SECONDS)


async def test_reports_an_error_and_stores_later_entries(log: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise ClewError("no room")

    async with Appender(log) as appender:
        with monkeypatch.context() as patch:
            patch.setattr(log, "write", fail)
            with pytest.raises(ClewError, match="no room"):
                await asyncio.to_thread(appender.submit([make_entry(0)]).result, TIMEOUT_SECONDS)
        await asyncio.to_thread(appender.submit([make_entry(1)]).result, TIMEOUT_SECONDS)


async def test_rejects_entries_above_the_limit_but_accepts_one_large_entry(
    log: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = BlockedDisk(monkeypatch)
    async with Appender(log, max_pending_bytes=1000) as appender:
        writing = appender.submit([make_entry(0, size=5000)])
        await wait_for_sync(disk)
        waiting = appender.submit([make_entry(1, size=5000)])
        # `submit` queues on the event loop.
        await asyncio.sleep(0.05)
        with pytest.raises(OverloadedError, match="waiting"):
            appender.submit([make_entry(2)])
        with pytest.raises(OverloadedError, match="waiting"):
            await appender.store([make_entry(2)])
        disk.release()
        for future in (writing, waiting):
            await asyncio.to_thread(future.result, TIMEOUT_SECONDS)
        await appender.store([make_entry(2)])


async def test_file_backed_entries_do_not_count_as_pending_bytes(
    log: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = BlockedDisk(monkeypatch)
    async with Appender(log, max_pending_bytes=1000) as appender:
        writing = appender.submit([make_entry(0)])
        await wait_for_sync(disk)
        small = make_entry(1, size=500)
        waiting = [
            appender.submit([queued]) for queued in (small, with_memoryview(make_entry(2, size=5000)), make_entry(3))
        ]
        # `submit` queues on the event loop.
        await asyncio.sleep(0.05)
        assert appender.pending_bytes < 1000
        disk.release()
        for future in (writing, *waiting):
            await asyncio.to_thread(future.result, TIMEOUT_SECONDS)


def with_memoryview(log_entry: LogEntry) -> LogEntry:
    """Copy an entry with its body as a memoryview, like that of a spooled file."""
    return msgspec.structs.replace(log_entry, body=memoryview(log_entry.body))


async def test_drains_on_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = BlockedDisk(monkeypatch)
    with LogWriter(tmp_path) as log:
        async with Appender(log) as appender:
            waiting = [appender.submit([make_entry(number)]) for number in range(50)]
            await wait_for_sync(disk)
            threading.Timer(0.1, disk.release).start()
        for future in waiting:
            await asyncio.to_thread(future.result, TIMEOUT_SECONDS)
        with pytest.raises(OverloadedError, match="shutting down"):
            appender.submit([make_entry(99)])
    with LogWriter(tmp_path) as log:
        assert log.append_entries(make_entry(number) for number in range(51)) == 1
