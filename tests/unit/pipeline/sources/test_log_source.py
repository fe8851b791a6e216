"""Tests of the log as a Spark data source: splitting into tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from clew.eventlog.segments import SegmentRange, end_position, read_lines
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.pipeline.sources.log_source import MAX_BYTES_PER_TASK, LogSource

EVENT_COUNT = 4000
SEGMENT_BYTES = 300_000


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    for first in range(0, EVENT_COUNT, 100):
        with LogWriter(folder, segment_bytes=SEGMENT_BYTES) as writer:
            bodies = (b'{"n": %d, "text": "%s"}' % (number, b"x" * 400) for number in range(first, first + 100))
            writer.append(IncomingEvent(Stream.OPENLINEAGE, "test", body) for body in bodies)
    return folder


def read_tasks(folder: Path, start: int = 0, end: int | None = None, **options: int) -> list[list[SegmentRange]]:
    """Read the ranges of each task as Spark does."""
    reader_options = {"path": str(folder), "start": str(start), **{name: str(value) for name, value in options.items()}}
    reader = LogSource({**reader_options, **({} if end is None else {"end": str(end)})}).reader(None)
    return [[SegmentRange(*row) for row in reader.read(partition)] for partition in reader.partitions()]


def total_bytes(ranges: list[SegmentRange]) -> int:
    return sum(range_.end - range_.start for range_ in ranges)


def test_splits_evenly_over_cores(log: Path) -> None:
    tasks = read_tasks(log, cores=2)
    assert len(tasks) == 2
    assert abs(total_bytes(tasks[0]) - total_bytes(tasks[1])) <= 1
    assert all(len(ranges) > 1 for ranges in tasks), "tasks span segments"


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_reads_every_line_once_in_order(log: Path, cores: int) -> None:
    positions = [seq for ranges in read_tasks(log, cores=cores) for range_ in ranges for seq, _ in read_lines(range_)]
    assert len(positions) == EVENT_COUNT
    assert positions == sorted(set(positions))


def test_reads_few_bytes_in_one_task(log: Path) -> None:
    assert len(read_tasks(log, end=100_000, cores=8)) == 1


def test_has_no_task_without_new_events(log: Path) -> None:
    end = end_position(log)
    assert read_tasks(log, start=end, cores=2) == []


def test_read_limit_of_a_stream_is_proportional_to_cores(log: Path) -> None:
    reader = LogSource({"path": str(log), "cores": "2"}).streamReader(None)
    assert reader.getDefaultReadLimit() == ReadMaxBytes(2 * MAX_BYTES_PER_TASK)
