"""The log as a source of Spark: how what is new is cut into tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from clew.eventlog.segments import SegmentRange, end_position, read_lines
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.pipeline.log_source import MAX_BYTES_PER_TASK, LogSource

EVENTS = 4000
SEGMENT_BYTES = 300_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    for first in range(0, EVENTS, 100):
        with LogWriter(folder, segment_bytes=SEGMENT_BYTES) as writer:
            bodies = (b'{"n": %d, "text": "%s"}' % (number, b"x" * 400) for number in range(first, first + 100))
            writer.append(IncomingEvent(Stream.OPENLINEAGE, "test", body) for body in bodies)
    return folder


def tasks(folder: Path, start: int = 0, end: int | None = None, **options: int) -> list[list[SegmentRange]]:
    """The ranges of each task, as Spark would read them."""
    given = {"path": str(folder), "start": str(start), **{name: str(value) for name, value in options.items()}}
    reader = LogSource({**given, **({} if end is None else {"end": str(end)})}).reader(None)
    return [[SegmentRange(*row) for row in reader.read(part)] for part in reader.partitions()]


def size(parts: list[SegmentRange]) -> int:
    return sum(part.end - part.start for part in parts)


def test_all_cores_get_as_much(log: Path) -> None:
    found = tasks(log, cores=2)
    assert len(found) == 2
    assert abs(size(found[0]) - size(found[1])) <= 1
    assert all(len(parts) > 1 for parts in found), "a task goes on where a segment ends"


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_every_line_is_read_once_and_in_order(log: Path, cores: int) -> None:
    positions = [seq for parts in tasks(log, cores=cores) for part in parts for seq, _ in read_lines(part)]
    assert len(positions) == EVENTS
    assert positions == sorted(set(positions))


def test_little_is_left_to_one_task(log: Path) -> None:
    assert len(tasks(log, end=100_000, cores=8)) == 1


def test_nothing_new_is_no_task(log: Path) -> None:
    end = end_position(log)
    assert tasks(log, start=end, cores=2) == []


def test_a_stream_admits_as_much_as_all_cores_take_at_once(log: Path) -> None:
    reader = LogSource({"path": str(log), "cores": "2"}).streamReader(None)
    assert reader.getDefaultReadLimit() == ReadMaxBytes(2 * MAX_BYTES_PER_TASK)
