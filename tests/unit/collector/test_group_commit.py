"""Group commit: many wait for one sync, and each hears how it ended."""

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


def entry(number: int, size: int = 10) -> LogEntry:
    return LogEntry.from_event(
        IncomingEvent(Stream.OPENLINEAGE, "test", b'{"n": %d, "x": "%s"}' % (number, b"x" * size))
    )


class HeldLog:
    """Stands for a log whose disk waits until it is let go."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.is_writing = threading.Event()
        self.groups: list[list[str]] = []
        self.fault: Exception | None = None

    def append_entries(self, entries: Iterable[LogEntry]) -> int:
        self.groups.append([event_id(one.body) for one in entries])
        self.is_writing.set()
        self.go_on.wait(10)
        if self.fault is not None:
            raise self.fault
        return 0


def test_what_queues_up_is_written_at_once() -> None:
    log = HeldLog()
    with Appender(log) as appender:  # type: ignore[arg-type]
        first = appender.submit([entry(0)])
        assert log.is_writing.wait(10)
        others = [appender.submit([entry(number), entry(-number)]) for number in range(1, 9)]
        assert not any(one.done() for one in (first, *others))
        log.go_on.set()
        for one in (first, *others):
            one.result(10)
    assert [len(group) for group in log.groups] == [1, 16]


def test_whoever_waits_hears_of_a_fault_and_the_next_are_stored() -> None:
    log = HeldLog()
    log.fault = ClewError("no room")
    log.go_on.set()
    with Appender(log) as appender:  # type: ignore[arg-type]
        with pytest.raises(ClewError, match="no room"):
            appender.submit([entry(0)]).result(10)
        log.fault = None
        appender.submit([entry(1)]).result(10)


def test_too_much_is_refused_but_one_is_always_let_in() -> None:
    log = HeldLog()
    with Appender(log, max_pending_bytes=1000) as appender:  # type: ignore[arg-type]
        begun = appender.submit([entry(0, size=5000)])
        assert log.is_writing.wait(10)
        waiting = appender.submit([entry(1, size=5000)])
        with pytest.raises(OverloadedError, match="waiting"):
            appender.submit([entry(2)])
        log.go_on.set()
        begun.result(10)
        waiting.result(10)
        appender.submit([entry(2)]).result(10)


def test_a_large_event_and_small_ones_do_not_stand_in_each_others_way() -> None:
    log = HeldLog()
    with Appender(log, max_pending_bytes=1000) as appender:  # type: ignore[arg-type]
        begun = appender.submit([entry(0)])
        assert log.is_writing.wait(10)
        small = entry(1, size=500)
        waiting = [appender.submit([one]) for one in (small, in_a_file(entry(2, size=5000)), entry(3))]
        assert appender.pending_bytes < 1000
        log.go_on.set()
        for one in (begun, *waiting):
            one.result(10)


def in_a_file(given: LogEntry) -> LogEntry:
    """The entry as one whose bytes are not held in memory."""
    return msgspec.structs.replace(given, body=memoryview(given.body))


def test_it_drains_when_it_is_closed(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as log:
        with Appender(log) as appender:
            waiting = [appender.submit([entry(number)]) for number in range(50)]
        assert all(one.done() for one in waiting)
        with pytest.raises(OverloadedError, match="shutting down"):
            appender.submit([entry(99)])
    with LogWriter(tmp_path) as log:
        assert log.append_entries(entry(number) for number in range(51)) == 1
