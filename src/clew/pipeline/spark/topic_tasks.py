"""Spark tasks that read events from a Kafka topic. Without the data source: a worker imports this in each batch."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, Message

from clew.collector.file_import import guess_stream
from clew.collector.ingest import split_payload
from clew.eventlog.segments import UNKNOWN_TIME
from clew.eventlog.writer import normalize_body
from clew.events.decoding import RejectedError
from clew.events.ids import event_id, to_single_line
from clew.events.streams import AnyEvent, Stream, decode_event, decode_utf8
from clew.kafka.config import STREAM_HEADER, KafkaConfig
from clew.kafka.consumer import OffsetRange, message_offset, read_range
from clew.lake.event_rows import ReceivedEvent
from clew.pipeline.checkpoint import POSITIONS_PER_OFFSET, RawOnlyRanges, is_in_ranges
from clew.pipeline.workers import TaskEvent

_MAX_ITEMS = POSITIONS_PER_OFFSET


def read_topic_events(
    batches: Iterator[pa.RecordBatch],
    duplicate_seqs: frozenset[int] = frozenset(),
    raw_only_ranges: RawOnlyRanges = (),
    *,
    config: KafkaConfig,
) -> Iterator[TaskEvent]:
    """Read the events of ranges of offsets, except duplicates. Input rows are ranges."""
    for batch in batches:
        for row in batch.to_pylist():
            part = OffsetRange(**row)
            for message in read_range(config, part):
                seq = part.position + POSITIONS_PER_OFFSET * (message_offset(message) - part.start)
                for item in _message_events(message, seq):
                    if item.origin.seq not in duplicate_seqs:
                        yield item._replace(is_raw_only=is_in_ranges(item.origin.seq, raw_only_ranges))


def _message_events(message: Message, seq: int) -> Iterator[TaskEvent]:
    """Yield the event of a message, or the items of a list; nothing for an empty one, such as a tombstone."""
    value = message.value()
    if not value or not value.strip():
        return
    bodies = split_payload(value) if value.lstrip().startswith(b"[") else [value]
    if not 0 < len(bodies) <= _MAX_ITEMS:
        bodies = [value]
    received_at, metadata = _received_at(message), _metadata(message)
    source = f"kafka:{message.topic()}/{message.partition()}/{message.offset()}"
    for number, body in enumerate(bodies):
        stream, text, event = _decode_body(_stream(message), body, received_at)
        received = ReceivedEvent(event_id(text), seq + number, received_at, source, text, metadata)
        yield TaskEvent(event, received, stream=stream)


def _decode_body(stream: Stream, body: bytes, at: datetime) -> tuple[Stream, bytes, AnyEvent | RejectedError]:
    """Decode an event; one that is not OpenLineage may be of another stream."""
    text = to_single_line(body)
    decoder = decode_utf8 if text.isascii() else decode_event
    try:
        return stream, text, decoder(stream, text, at.isoformat())
    except RejectedError as error:
        other = guess_stream(text)
        if stream is Stream.OPENLINEAGE and other is not stream:
            return _decode_body(other, body, at)
        return stream, normalize_body(body), error


def _stream(message: Message) -> Stream:
    """Return the stream of the header that clew writes; OpenLineage without it."""
    for name, value in _headers(message):
        if name == STREAM_HEADER:
            return next((stream for stream in Stream if stream.encode() == value), Stream.OPENLINEAGE)
    return Stream.OPENLINEAGE


def _headers(message: Message) -> list[tuple[str, Any]]:
    """Return the headers; they can be repeated."""
    return list(message.headers() or ())  # type: ignore[arg-type]  # a list when it is read


def _received_at(message: Message) -> datetime:
    kind, milliseconds = message.timestamp()
    if kind == TIMESTAMP_NOT_AVAILABLE or not 0 <= milliseconds < _MAX_MILLISECONDS:
        return UNKNOWN_TIME
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


# The end of the year 9999.
_MAX_MILLISECONDS = 253_402_300_800_000


def _metadata(message: Message) -> str:
    """Return where a message was read, with its key and headers, as JSON."""
    kind, milliseconds = message.timestamp()
    metadata: dict[str, Any] = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
    }
    if kind != TIMESTAMP_NOT_AVAILABLE:
        metadata["timestamp"] = milliseconds
        metadata["timestampType"] = "CreateTime" if kind == TIMESTAMP_CREATE_TIME else "LogAppendTime"
    if message.key() is not None:
        metadata["key"] = _text(message.key())
    if headers := _headers(message):
        metadata["headers"] = [[name, _text(value)] for name, value in headers]
    return msgspec.json.encode(metadata).decode()


def _text(value: str | bytes | None) -> str | dict[str, str] | None:
    """Return bytes as text; in base64 if they are not UTF-8."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}
