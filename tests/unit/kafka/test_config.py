"""Tests of the settings of Kafka clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.errors import UsageError
from clew.kafka.config import KafkaConfig

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="p=w;\\"d";'


def test_options_override_earlier_ones(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(
        "# comment\n! comment\n\nbootstrap.servers=other:9092\nsecurity.protocol : SASL_SSL\n"
        "sasl.mechanism=\\\n    PLAIN\nsasl.username=a=b\nsasl.password = s3cret\n"
    )
    config = KafkaConfig.from_options("one:9092,two:9092", "events.a-b_c", [str(file), "sasl.password=later"])
    settings = config.client_settings()
    assert settings["bootstrap.servers"] == "one:9092,two:9092"
    assert (settings["security.protocol"], settings["sasl.mechanism"]) == ("SASL_SSL", "PLAIN")
    assert (settings["sasl.username"], settings["sasl.password"]) == ("a=b", "later")


def test_settings_of_java_clients(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        f"sasl.jaas.config={JAAS}\nsasl.mechanism=PLAIN\nsecurity.protocol=SASL_PLAINTEXT\n"
        "value.serializer=org.apache.kafka.common.serialization.StringSerializer\n"
    )
    settings = KafkaConfig.from_options("b:1", "t", [str(file)]).settings
    assert settings["sasl.username"] == "me"
    assert "value.serializer" not in settings


def test_secrets_are_not_shown() -> None:
    options = ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=me", "sasl.password=s3cret"]
    config = KafkaConfig.from_options("b:1", "t", options)
    assert "s3cret" not in f"{config} {config!r}"
    assert "me" in repr(config)
    assert config.redact("error: s3cret") == "error: ***"


@pytest.mark.parametrize(
    ("brokers", "topic", "options", "message"),
    [
        ("b:1", None, [], "--kafka requires --topic"),
        ("b:1", "a,b", [], "Invalid topic 'a,b'"),
        ("b:1", "", [], "--kafka requires --topic"),
        ("b:1,,c:1", "t", [], "Invalid brokers"),
        ("b:1", "t", ["no.such.setting=1"], 'No such configuration property: "no.such.setting"'),
        ("b:1", "t", ["security.protocol=NONE"], "Invalid value"),
        ("b:1", "t", ["missing.properties"], "neither KEY=VALUE nor a file"),
        ("b:1", "t", ["Password=s3cret"], "Invalid --kafka-config Password=…"),
        ("b:1", "t", ["group.id=mine"], "group.id cannot be changed"),
        ("b:1", "t", ["ssl.truststore.location=/a.jks"], "of Java clients only"),
        ("b:1", "t", ["sasl.jaas.config=x required token=s3cret;"], "has no username and password"),
    ],
)
def test_invalid_options(brokers: str, topic: str | None, options: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        KafkaConfig.from_options(brokers, topic, options)
    assert message in raised.value.message
    assert "s3cret" not in str(raised.value)


def test_invalid_line(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("sasl.username=me\nnonsense\n")
    with pytest.raises(UsageError, match="Line 2 of"):
        KafkaConfig.from_options("b:1", "t", [str(file)])
