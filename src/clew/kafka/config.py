"""Settings of Kafka clients: brokers, topic, and options from key=value pairs and properties files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from clew.errors import MissingExtraError, UsageError

# Header with the stream of an event that is not OpenLineage.
STREAM_HEADER: Final = "clew-stream"
_SECRET: Final = re.compile(r"password|secret|token|jaas|\.pem$|credential", re.IGNORECASE)
_REDACTED: Final = "***"
# Settings that the exactly-once reading and the acknowledgement depend on.
_RESERVED: Final = frozenset({"bootstrap.servers", "group.id", "enable.auto.commit", "auto.offset.reset", "acks"})
# Settings of Java clients whose value or name differs in librdkafka.
_JAVA_NAMES: Final = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
}
_JAVA_ONLY: Final = re.compile(
    r"(key|value)\.(de)?serializer|client\.dns\.lookup|interceptor\.classes|ssl\.(truststore|keystore)\.type"
)
_JAVA_STORE: Final = re.compile(r"ssl\.(truststore|keystore)\.(location|password)")
_JAAS_FIELD: Final = re.compile(r'(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|\'([^\']*)\')')
_STORE_HINT: Final = (
    "Use PEM files instead of Java keystores: ssl.ca.location, ssl.certificate.location, ssl.key.location."
)


@dataclass(frozen=True)
class KafkaConfig:
    """Brokers, topic and further settings of librdkafka. `str()` and `repr()` have no secrets."""

    brokers: str
    topic: str
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_options(cls, brokers: str, topic: str | None, options: Iterable[str] = ()) -> KafkaConfig:
        """Create the settings of the options `--kafka`, `--topic` and `--kafka-config`; UsageError if invalid.

        An option is KEY=VALUE or the path of a properties file; later ones override earlier ones.
        """
        if find_spec("confluent_kafka") is None:
            raise MissingExtraError.for_module("kafka", "confluent_kafka")
        if not topic:
            raise UsageError("--kafka requires --topic.", hint="Pass --topic with the name of the topic.")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
            hint = "A name has letters, digits and . _ - only. Pass one topic."
            raise UsageError(f"Invalid topic {topic!r}.", hint=hint)
        if not all(re.fullmatch(r"\S+", part) for part in brokers.split(",")):
            raise UsageError(f"Invalid brokers {brokers!r}.", hint="Use host:port, several separated by commas.")
        settings: dict[str, str] = {}
        for option in options:
            settings.update(_parse_option(option))
        for key in settings.keys() & _RESERVED:
            if key != "bootstrap.servers":
                raise UsageError(f"The Kafka setting {key} cannot be changed.", hint="Remove it; clew sets it.")
        settings.pop("bootstrap.servers", None)
        config = cls(brokers, topic, settings)
        config.validate()
        return config

    def client_settings(self, **settings: Any) -> dict[str, Any]:
        """Return the settings for a client of confluent-kafka."""
        # Reported by the callers, with the cause.
        defaults = {"log_level": 0, "client.id": "clew", "allow.auto.create.topics": False}
        return {**defaults, **self.settings, "bootstrap.servers": self.brokers, **settings}

    def validate(self) -> None:
        """Raise UsageError for a setting that librdkafka does not know, or an invalid value."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        try:
            AdminClient(self.client_settings())
        except KafkaException as error:
            reason = self.redact(error.args[0].str()).rstrip(".")
            hint = "Settings have the names of librdkafka, such as security.protocol, sasl.mechanism, ssl.ca.location."
            raise UsageError(f"Invalid --kafka-config: {reason}.", hint=hint) from None

    def redact(self, text: str) -> str:
        """Replace secret values in a text."""
        for key, value in self.settings.items():
            if _SECRET.search(key) and value:
                text = text.replace(value, _REDACTED)
        return text

    def __str__(self) -> str:
        return f"the topic {self.topic} at {self.brokers}"

    def __repr__(self) -> str:
        shown = {key: _REDACTED if _SECRET.search(key) else value for key, value in self.settings.items()}
        return f"KafkaConfig({self.brokers!r}, {self.topic!r}, {shown!r})"


def _parse_option(option: str) -> dict[str, str]:
    key, equals, value = option.partition("=")
    if equals and re.fullmatch(r"[a-z][a-z0-9._-]*", key.strip()) and not Path(option).is_file():
        return _translate_java({key.strip(): value.strip()})
    path = Path(option).expanduser()
    if not path.is_file():
        # A value may be a secret: it is not repeated.
        shown = f"{key}=…" if equals else option
        raise UsageError(
            f"Invalid --kafka-config {shown}: neither KEY=VALUE nor a file.",
            hint="Use security.protocol=SASL_SSL, or the path of a properties file.",
        )
    return _translate_java(_read_properties(path))


def _read_properties(path: Path) -> dict[str, str]:
    """Read a Java properties file: comments, continued lines, and `=` or `:` after the key."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f"Cannot read {path}: {reason}.", hint="Pass a properties file.") from None
    result: dict[str, str] = {}
    text = re.sub(r"\\\r?\n[ \t]*", "", text)
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if not entry or entry.startswith(("#", "!")):
            continue
        match = re.fullmatch(r"([^\s=:]+)\s*[=:]\s*(.*)", entry)
        if match is None:
            raise UsageError(f"Line {number} of {path} is not KEY=VALUE.", hint="Fix the line or make it a comment.")
        result[match[1]] = match[2]
    return result


def _translate_java(settings: Mapping[str, str]) -> dict[str, str]:
    """Translate settings of Java clients to those of librdkafka."""
    result: dict[str, str] = {}
    for key, value in settings.items():
        if key == "sasl.jaas.config":
            fields = {match[1]: match[2] or match[3] or "" for match in _JAAS_FIELD.finditer(value)}
            if fields.keys() != {"username", "password"}:
                hint = "Set sasl.username and sasl.password, or the settings of your mechanism in librdkafka."
                raise UsageError("The setting sasl.jaas.config has no username and password.", hint=hint)
            result |= {f"sasl.{name}": text for name, text in fields.items()}
        elif _JAVA_STORE.fullmatch(key):
            raise UsageError(f"The setting {key} is of Java clients only.", hint=_STORE_HINT)
        elif not _JAVA_ONLY.fullmatch(key):
            result[_JAVA_NAMES.get(key, key)] = value
    return result
