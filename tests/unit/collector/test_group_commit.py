"""Tests of group commit: one sync for many events, and its result for each caller."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from clew.collector.group_commit import Appender, OverloadedError
from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogEntry, LogWriter
from clew.events.ids import event_id
from clew.events.streams import Stream


def make_entry(number: int, size: int = 10) -> LogEntry:
    return LogEntry.from_event(
        IncomingEvent(Stream.OPENLINEAGE, "test", b'{"n": %d, "x": "%s"}' % (number, b"x" * size))
    )


class BlockedLog:
    """Log that blocks in append_entries until `resume` is set."""

    def __init__(self) -> None:
        self.resume = threading.Event()
        self.is_writing = threading.Event()
        self.groups: list[list[str]] = []
        self.error: Exception | None = None

    def append_entries(self, entries: Iterable[LogEntry]) -> int:
        self.groups.append([event_id(log_entry.body) for log_entry in entries])
        self.is_writing.set()
        self.resume.wait(10)
        if self.error is not None:
            raise self.error
        return 0


def test_writes_queued_entries_as_one_group() -> None:
    log = BlockedLog()
    with Appender(log) as appender:  # type: ignore[arg-type]
        first = appender.submit([make_entry(0)])
        assert log.is_writing.wait(10)
        others = [appender.submit([make_entry(number), make_entry(-number)]) for number in range(1, 9)]
        assert not any(future.done() for future in (first, *others))
        log.resume.set()
        for future in (first, *others):
            future.result(10)
    assert [len(group) for group in log.groups] == [1, 16]


def test_reports_an_error_and_stores_later_entries() -> None:
    log = BlockedLog()
    log.error = ClewError("no room")
    log.resume.set()
    with Appender(log) as appender:  # type: ignore[arg-type]
        with pytest.raises(ClewError, match="no room"):
            appender.submit([make_entry(0)]).result(10)
        log.error = None
        appender.submit([make_entry(1)]).result(10)


def test_rejects_entries_above_the_limit_but_accepts_one_large_entry() -> None:
    log = BlockedLog()
    with Appender(log, max_pending_bytes=1000) as appender:  # type: ignore[arg-type]
        writing = appender.submit([make_entry(0, size=5000)])
        assert log.is_writing.wait(10)
        waiting = appender.submit([make_entry(1, size=5000)])
        with pytest.raises(OverloadedError, match="waiting"):
            appender.submit([make_entry(2)])
        log.resume.set()
        writing.result(10)
        waiting.result(10)
        appender.submit([make_entry(2)]).result(10)


def test_file_backed_entries_do_not_count_as_pending_bytes() -> None:
    log = BlockedLog()
    with Appender(log, max_pending_bytes=1000) as appender:  # type: ignore[arg-type]
        writing = appender.submit([make_entry(0)])
        assert log.is_writing.wait(10)
        small = make_entry(1, size=500)
        waiting = [
            appender.submit([queued]) for queued in (small, with_memoryview(make_entry(2, size=5000)), make_entry(3))
        ]
        assert appender.pending_bytes < 1000
        log.resume.set()
        for future in (writing, *waiting):
            future.result(10)


def with_memoryview(log_entry: LogEntry) -> LogEntry:
    """Copy an entry with its body as a memoryview, like that of a spooled file."""
    return msgspec.structs.replace(log_entry, body=memoryview(log_entry.body))


def test_drains_on_close(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        with Appender(log) as appender:
            waiting = [appender.submit([make_entry(number)]) for number in range(50)]
        assert all(future.done() for future in waiting)
        with pytest.raises(OverloadedError, match="shutting down"):
            appender.submit([make_entry(99)])
    with LogWriter(tmp_path) as log:
        assert log.append_entries(make_entry(number) for number in range(51)) == 1
