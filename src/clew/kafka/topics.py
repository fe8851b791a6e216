"""Partitions and offsets of a topic, and errors of Kafka as ClewError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from clew.errors import ClewError
from clew.kafka.config import KafkaConfig

_REQUEST_SECONDS = 10.0


class KafkaConnectionError(ClewError):
    """No broker answers: may be over in a moment."""


class TopicOffsets(NamedTuple):
    """Id of a topic, and for each partition its first offset and the offset after its last committed message."""

    topic_id: str
    earliest: dict[int, int]
    latest: dict[int, int]


class TopicClient:
    """Reads the partitions and offsets of a topic. The connection is kept between calls."""

    def __init__(self, config: KafkaConfig, timeout: float = _REQUEST_SECONDS) -> None:
        self._config = config
        self._timeout = timeout
        self._errors = _LastError()
        self._admin = AdminClient(config.client_settings(error_cb=self._errors, **{"socket.timeout.ms": 10_000}))

    def read_offsets(self) -> TopicOffsets:
        """Read the partitions and their offsets; ClewError if the topic does not exist or cannot be read."""
        topic = self._config.topic
        with translate_kafka_errors(self._config, self._errors), self._collect_cause():
            collection = TopicCollection([topic])
            description = self._admin.describe_topics(collection, request_timeout=self._timeout)[topic].result()
            partitions = [TopicPartition(topic, item.id) for item in description.partitions]
            earliest = self._list_offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
            latest = self._list_offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return TopicOffsets(str(description.topic_id or ""), earliest, latest)

    def poll(self) -> None:
        """Handle events of the client, such as errors of the connection."""
        self._admin.poll(0)

    @contextmanager
    def _collect_cause(self) -> Iterator[None]:
        # The error callback, which has the cause of a timeout, is only called by `poll`.
        try:
            yield
        except KafkaException:
            self.poll()
            raise

    def _list_offsets(self, partitions: list[TopicPartition], spec: OffsetSpec) -> dict[int, int]:
        futures = self._admin.list_offsets(
            dict.fromkeys(partitions, spec),
            # Messages of open transactions are not read.
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout,
        )
        return {
            partition.partition: future.result().offset
            for partition, future in sorted(futures.items(), key=lambda item: item[0].partition)
        }


class _LastError:
    """Error callback of a client: the cause of a timeout, such as rejected credentials."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        # "All brokers are down" follows the cause.
        if self.error is None or error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  # a public constant
            self.error = error


@contextmanager
def translate_kafka_errors(config: KafkaConfig, cause: _LastError | None = None) -> Iterator[None]:
    """Raise errors of Kafka as ClewError with a hint."""
    if cause is not None:
        cause.error = None
    try:
        yield
    except KafkaException as exc:
        raise to_clew_error(config, exc.args[0], None if cause is None else cause.error) from None


def to_clew_error(config: KafkaConfig, error: KafkaError, cause: KafkaError | None = None) -> ClewError:
    """Return the ClewError of an error of Kafka; `cause` was reported before by the connection."""
    codes = {error.code(), *(() if cause is None else (cause.code(),))}
    for known, (reason, hint) in _CAUSES.items():
        if known in codes:
            kind = KafkaConnectionError if known in _CONNECTION_ERRORS else ClewError
            return kind(f"Cannot use {config}: {reason}.", hint=hint)
    text = config.redact((cause or error).str()).rstrip(".")
    return ClewError(f"Cannot use {config}: {text}.", hint="Fix the cause and run the command again.")


_CREDENTIALS_HINT = "Check security.protocol, sasl.mechanism, sasl.username and sasl.password in --kafka-config."
_NETWORK_HINT = "Check --kafka, the network, and security.protocol in --kafka-config. Nothing was lost."
_ACL_HINT = "Required: DESCRIBE and READ on the topic; WRITE to produce."
# In this order: rejected credentials are followed by "all brokers are down".
_CAUSES: Mapping[int, tuple[str, str]] = {
    KafkaError._AUTHENTICATION: ("the credentials were rejected", _CREDENTIALS_HINT),  # noqa: SLF001
    KafkaError.SASL_AUTHENTICATION_FAILED: ("the credentials were rejected", _CREDENTIALS_HINT),
    KafkaError._SSL: ("the TLS connection failed", "Check ssl.ca.location in --kafka-config."),  # noqa: SLF001
    KafkaError.TOPIC_AUTHORIZATION_FAILED: ("access to the topic was denied", _ACL_HINT),
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: ("access to the cluster was denied", _ACL_HINT),
    KafkaError.UNKNOWN_TOPIC_OR_PART: ("the topic does not exist", "Create the topic, or pass another with --topic."),
    KafkaError._UNKNOWN_TOPIC: ("the topic does not exist", "Create the topic, or pass another with --topic."),  # noqa: SLF001
    KafkaError._RESOLVE: ("the host name cannot be resolved", _NETWORK_HINT),  # noqa: SLF001
    KafkaError._TRANSPORT: ("no broker answers", _NETWORK_HINT),  # noqa: SLF001
    KafkaError._ALL_BROKERS_DOWN: ("no broker answers", _NETWORK_HINT),  # noqa: SLF001
    KafkaError._TIMED_OUT: ("no broker answers", _NETWORK_HINT),  # noqa: SLF001
    KafkaError._MSG_TIMED_OUT: ("no broker answers", _NETWORK_HINT),  # noqa: SLF001
    KafkaError.REQUEST_TIMED_OUT: ("no broker answers", _NETWORK_HINT),
    KafkaError.LEADER_NOT_AVAILABLE: ("a partition has no leader", _NETWORK_HINT),
    KafkaError.NOT_LEADER_FOR_PARTITION: ("a partition has no leader", _NETWORK_HINT),
    KafkaError.BROKER_NOT_AVAILABLE: ("no broker answers", _NETWORK_HINT),
}
_CONNECTION_ERRORS = frozenset(
    code for code, (reason, _) in _CAUSES.items() if reason in {"no broker answers", "a partition has no leader"}
)


def as_json_partitions(offsets: Mapping[int, int]) -> dict[str, Any]:
    """Return offsets by partition with text keys, in order of the partitions."""
    return {str(partition): offsets[partition] for partition in sorted(offsets)}
