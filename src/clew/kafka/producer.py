"""Produce events to a topic in the role of the event log: acknowledged by all in-sync replicas when `sync` returns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # type: ignore[attr-defined]
from msgspec import Struct

from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogEntry
from clew.events.streams import Stream
from clew.kafka.config import STREAM_HEADER, KafkaConfig
from clew.kafka.topics import KafkaConnectionError, TopicClient, to_clew_error

SOURCE_HEADER: Final = "clew-source"
# Shorter than the deadline of an acknowledgement, so that a client gets the reason.
_DELIVERY_MS = 4_000
_MAX_MESSAGE_BYTES = 512 << 20
_DEFAULT_TOPIC_BYTES = 1_048_588
# Of a batch with one message: headers, key, and the batch itself.
_OVERHEAD_BYTES = 2_048
_QUEUE_KBYTES = 1 << 20


class _Identity(Struct):
    namespace: str = ""
    name: str = ""


class _Run(Struct):
    runId: str = ""  # noqa: N815  # the wire's name


class _Header(Struct):
    run: _Run | None = None
    job: _Identity | None = None
    dataset: _Identity | None = None
    session_id: str = ""


_decode_header = msgspec.json.Decoder(_Header).decode


class TopicWriter:
    """Appends events to a topic, like LogWriter to the log. Use as a context manager.

    Events of a run have the same key and thus their order. An event whose acknowledgement is lost may be stored twice
    when it is sent again; the pipeline skips duplicates.
    """

    def __init__(self, config: KafkaConfig, folder: Path) -> None:
        # Positions of imported notebook streams are stored in it.
        self.folder = folder
        self._config = config
        self._errors: list[KafkaError] = []
        self._cause: KafkaError | None = None

    def __enter__(self) -> Self:
        # Reports an unknown topic and wrong credentials before anything is sent.
        TopicClient(self._config).read_offsets()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings = {
            "acks": "all",
            "enable.idempotence": True,
            "message.timeout.ms": _DELIVERY_MS,
            "message.max.bytes": _MAX_MESSAGE_BYTES,
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            "error_cb": self._record_cause,
        }
        defaults = {"linger.ms": 2, "compression.type": "lz4"}
        try:
            self._producer = Producer({**defaults, **self._config.client_settings(**settings)})
        except KafkaException as error:
            raise to_clew_error(self._config, error.args[0]) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.flush(_DELIVERY_MS / 1000)

    def append(self, events: Iterable[IncomingEvent]) -> int:
        """Store events and return their number."""
        return self.append_entries(map(LogEntry.from_event, events))

    append_duplicates = append

    def append_entries(self, entries: Iterable[LogEntry]) -> int:
        """Store entries and return their number."""
        count = self._produce(entries)
        self.sync()
        return count

    def write(self, entries: Iterable[LogEntry]) -> None:
        """Queue entries. They are stored when `sync` returns, which must follow."""
        self._produce(entries)

    def sync(self) -> None:
        """Wait until all queued entries are acknowledged; ClewError if one is not."""
        self._producer.flush()
        errors, self._errors = self._errors, []
        if errors:
            error = to_clew_error(self._config, errors[0], self._cause)
            self._cause = None
            raise KafkaUnavailableError(error) if isinstance(error, KafkaConnectionError) else error

    def adopt(self, staged: Path) -> None:
        """Raise ClewError: a segment belongs to a log."""
        raise ClewError(f"{staged} cannot be added to a topic.", hint="Import into a data directory without --kafka.")

    def _produce(self, entries: Iterable[LogEntry]) -> int:
        count = 0
        for entry in entries:
            if not entry.body:
                continue
            body = bytes(entry.body)
            headers: list[tuple[str, str | bytes | None]] = [(SOURCE_HEADER, entry.source.encode())]
            if entry.stream is not Stream.OPENLINEAGE:
                headers.append((STREAM_HEADER, entry.stream.encode()))
            self._send(body, headers)
            count += 1
        return count

    def _send(self, body: bytes, headers: list[tuple[str, str | bytes | None]]) -> None:
        while True:
            try:
                self._producer.produce(
                    self._config.topic, body, _message_key(body), headers=headers, on_delivery=self._record_error
                )
            except BufferError:
                # The queue is full: wait for acknowledgements.
                self._producer.poll(0.1)
            except KafkaException as error:
                self._errors.append(error.args[0])
                return
            else:
                return

    def _record_error(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._errors.append(error)

    def _record_cause(self, error: KafkaError) -> None:
        self._cause = error


class KafkaUnavailableError(ClewError):
    """Events cannot be stored because no broker answers; may be over in a moment."""

    def __init__(self, error: ClewError) -> None:
        super().__init__(error.message, hint="Send the events again in a moment.")


def read_max_event_bytes(config: KafkaConfig) -> int:
    """Read the size of the largest event that the topic accepts."""
    resource = ConfigResource(ResourceType.TOPIC, config.topic)
    admin = AdminClient(config.client_settings())
    try:
        entries = admin.describe_configs([resource])[resource].result(_DELIVERY_MS / 1000)
        limit = int(entries["max.message.bytes"].value)
    except (KafkaException, KeyError, ValueError, TimeoutError):
        # Describing the configuration may not be allowed.
        limit = _DEFAULT_TOPIC_BYTES
    return max(1, limit - _OVERHEAD_BYTES)


def _message_key(body: bytes) -> bytes | None:
    """Return the run of an event, else its session, job or dataset."""
    try:
        header = _decode_header(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if header.run is not None and header.run.runId:
        return f"run:{header.run.runId}".encode()
    if header.session_id:
        return f"session:{header.session_id}".encode()
    for kind, entity in (("job", header.job), ("dataset", header.dataset)):
        if entity is not None and entity.name:
            return f"{kind}:{entity.namespace}/{entity.name}".encode()
    return None
