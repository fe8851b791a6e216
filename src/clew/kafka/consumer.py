"""Read the messages of a range of offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from clew.errors import ClewError
from clew.kafka.config import KafkaConfig
from clew.kafka.topics import to_clew_error, translate_kafka_errors

_MESSAGES_PER_CALL = 500
_POLL_SECONDS = 1.0
# A broker that is restarted answers within this time.
_MAX_SILENCE_SECONDS = 120.0
# Messages that are fetched ahead and belong to the next batch are discarded.
_MAX_PREFETCH_KBYTES = 16 << 10


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of a partition from `start` up to `end`; `position` is the position of the first in the log."""

    topic: str
    partition: int
    start: int
    end: int
    position: int


@lru_cache(maxsize=1)
def _consumer(brokers: str, settings: tuple[tuple[str, str], ...]) -> Consumer:
    """Return the consumer of this process: Spark reuses Python workers, and connecting takes longer than a batch."""
    config = KafkaConfig(brokers, "", dict(settings))
    defaults = {
        "queued.max.messages.kbytes": _MAX_PREFETCH_KBYTES,
        # A range is assigned per batch: a long wait after an empty response would delay it.
        "fetch.wait.max.ms": 100,
    }
    required = {
        # Required by librdkafka. There is no group: offsets are in the checkpoint.
        "group.id": "clew",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "check.crcs": True,
    }
    return Consumer({**defaults, **config.client_settings(**required)})


def read_range(config: KafkaConfig, offsets: OffsetRange) -> Iterator[Message]:
    """Yield the messages of a range; ClewError if some were deleted, or if no broker answers for two minutes."""
    consumer = _consumer(config.brokers, tuple(sorted(config.settings.items())))
    with translate_kafka_errors(config):
        consumer.assign([TopicPartition(offsets.topic, offsets.partition, offsets.start)])
    try:
        yield from _read_assigned(consumer, config, offsets)
    finally:
        consumer.unassign()


def _read_assigned(consumer: Consumer, config: KafkaConfig, offsets: OffsetRange) -> Iterator[Message]:
    deadline, last_error = time.monotonic() + _MAX_SILENCE_SECONDS, None
    while time.monotonic() < deadline:
        with translate_kafka_errors(config):
            messages = consumer.consume(_MESSAGES_PER_CALL, _POLL_SECONDS)
        for message in messages:
            last_error = _read_error(message, offsets)
            if last_error is not None:
                continue
            # The last offsets can be markers of transactions, or removed by compaction: a later one ends the range.
            offset, is_event = message_offset(message), message.error() is None
            if is_event and offset < offsets.end:
                deadline = time.monotonic() + _MAX_SILENCE_SECONDS
                yield message
            if offset + is_event >= offsets.end:
                return
    raise to_clew_error(config, last_error or KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001


def _read_error(message: Message, offsets: OffsetRange) -> KafkaError | None:
    """Return the error of the connection that is in place of a message, if any; ClewError if offsets are missing."""
    error = message.error()
    if error is None:
        return None
    is_end = error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001  # a public constant
    if error.code() in _LOST or (is_end and message_offset(message) < offsets.start):
        raise lost_offsets_error(offsets.topic, offsets.partition, offsets.start)
    return None if is_end else error


_LOST = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001  # public constants


def message_offset(message: Message) -> int:
    """Return the offset of a message that was read."""
    offset = message.offset()
    return -1 if offset is None else offset


RESET_HINT = (
    "To continue with what the topic has now, run the command once with --reset-offsets: it is read from its first"
    " offset, and events that the lake contains already are skipped."
)


def lost_offsets_error(topic: str, partition: int, offset: int) -> ClewError:
    """Return the error for an offset that the topic does not have any more."""
    message = (
        f"The topic {topic} has no offset {offset:,} in partition {partition} any more: messages that were not ingested"
        " were deleted by its retention, or the topic was created again."
    )
    return ClewError(message, hint=RESET_HINT)
