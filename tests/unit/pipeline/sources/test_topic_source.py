"""Tests of offsets, positions and tasks of a Kafka topic."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import ClewError
from clew.kafka.config import KafkaConfig
from clew.kafka.consumer import OffsetRange
from clew.kafka.topics import TopicOffsets
from clew.pipeline.checkpoint import POSITIONS_PER_OFFSET, SourceOffset
from clew.pipeline.sources.topic_source import advance_offset, check_offsets, plan_topic_tasks

CONFIG = KafkaConfig("b:1", "t")


def offset(position: int, **partitions: int) -> SourceOffset:
    return SourceOffset(position, "t", "id", {name[1:]: value for name, value in partitions.items()})


def task_ranges(start: SourceOffset, end: SourceOffset, cores: int) -> list[list[OffsetRange]]:
    tasks: list[Any] = list(plan_topic_tasks(start, end, cores))
    return [task.parts for task in tasks]


def test_position_counts_messages_of_all_partitions() -> None:
    end = advance_offset(offset(7, p0=5, p1=2), {0: 8, 1: 2, 2: 4})
    assert end == offset(7 + 7 * POSITIONS_PER_OFFSET, p0=8, p1=2, p2=4)


def test_no_new_messages() -> None:
    start = offset(7, p0=5)
    assert advance_offset(start, {0: 5}) is start
    assert advance_offset(start, {0: 3}) is start


def test_limit_is_shared_in_proportion() -> None:
    end = advance_offset(offset(0, p0=0, p1=0, p2=0), {0: 80, 1: 20, 2: 1}, 10)
    assert end.partitions == {"0": 8, "1": 2, "2": 1}
    assert end.position == 11 * POSITIONS_PER_OFFSET


def test_positions_are_unique_and_do_not_depend_on_tasks() -> None:
    start, end = offset(100, p0=0, p1=50), offset(0, p0=1_000, p1=650, p2=3)

    def positions(cores: int) -> dict[tuple[int, int], int]:
        return {
            (part.partition, number): part.position + POSITIONS_PER_OFFSET * (number - part.start)
            for parts in task_ranges(start, end, cores)
            for part in parts
            for number in range(part.start, part.end)
        }

    assert len(task_ranges(start, end, 1)) == 1
    assert len(task_ranges(start, end, 4)) == 4
    assert positions(1) == positions(4)
    assert sorted(positions(4).values()) == [100 + POSITIONS_PER_OFFSET * number for number in range(1_603)]


def test_offset_is_encoded_as_spark_stores_it() -> None:
    assert SourceOffset(5).encode() == b'{"position": 5}'
    assert offset(5, p0=1).encode() == b'{"position": 5, "topic": "t", "topic_id": "id", "partitions": {"0": 1}}'


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (SourceOffset(5), "is of the event log, not of the topic t"),
        (SourceOffset(5, "other"), "is of the topic other, not of t"),
        (SourceOffset(5, "t", "another id", {"0": 4}), "deleted and created again"),
        (offset(5, p0=1), "no offset 1 in partition 0"),
        (offset(5, p0=9), "no offset 9 in partition 0"),
        (offset(5, p7=1), "no offset 1 in partition 7"),
    ],
)
def test_checkpoint_of_another_source(stored: SourceOffset, message: str) -> None:
    with pytest.raises(ClewError) as raised:
        check_offsets(CONFIG, stored, TopicOffsets("id", {0: 2}, {0: 8}))
    assert message in raised.value.message
    assert "--reset-offsets" in str(raised.value.hint)


@pytest.mark.parametrize("topic_id", ["id", ""])
def test_checkpoint_of_the_topic(topic_id: str) -> None:
    check_offsets(CONFIG, offset(5, p0=2), TopicOffsets(topic_id, {0: 2, 1: 0}, {0: 2, 1: 1}))
