"""Kafka broker (KRaft, one node) that tests start, stop and kill. Its jars are cached in `.tools/kafka`."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from bench.jars import NoJarError, download_jar
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from tests.support.paths import ROOT

from clew.pipeline.spark.java import environment, find_java

JARS = ROOT / ".tools" / "kafka"
# Coordinates of org.apache.kafka:kafka_2.13 and its runtime dependencies.
_COORDINATES = Path(__file__).with_name("kafka_jars.txt")
_START_SECONDS = 60
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://127.0.0.1:{port}
listener.security.protocol.map=CLIENT:{protocol},CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.retention.check.interval.ms=500
log.initial.task.delay.ms=100
auto.create.topics.enable={auto_create}
"""
USER, PASSWORD = "clew", "correct-horse"
_SASL = f"""
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.client.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
username="{USER}" password="{PASSWORD}" user_{USER}="{PASSWORD}";
"""


class NoBrokerError(Exception):
    """The broker cannot be started here."""


class KafkaBroker:
    """A broker with its data in a folder. Use as a context manager; it can be stopped, killed and started again."""

    def __init__(self, folder: Path, *, has_sasl: bool = False, auto_create: bool = False) -> None:
        self._folder = folder
        self._ports = _free_ports(2)
        self._has_sasl = has_sasl
        self._auto_create = auto_create
        self._process: subprocess.Popen[bytes] | None = None
        self.brokers = f"127.0.0.1:{self._ports[0]}"

    def __enter__(self) -> Self:
        self._java = {**os.environ, **environment(find_java(self._folder / "java"))}
        self._class_path = _download_jars()
        self._write_properties()
        # An id that starts with a hyphen would be an option.
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        arguments = ["format", "-t", cluster_id, "-c"]
        subprocess.run(
            self._command("kafka.tools.StorageTool", *arguments), check=True, capture_output=True, env=self._java
        )
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)
        shutil.rmtree(self._folder / "data", ignore_errors=True)

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        with (self._folder / "broker.txt").open("ab") as output:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka"), stdout=output, stderr=output, env=self._java, start_new_session=True
            )
        deadline, admin = time.monotonic() + _START_SECONDS, self.admin()
        while time.monotonic() < deadline:
            with suppress(KafkaException):
                if admin.list_topics(timeout=1).brokers:
                    return
            if self._process.poll() is not None:
                break
        text = f"the broker did not start: {(self._folder / 'broker.txt').read_text()[-500:]}"
        raise NoBrokerError(text)

    def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """Stop the broker, or kill it with SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal_number)
            self._process.wait()
            self._process = None

    @property
    def client_config(self) -> dict[str, Any]:
        """Settings of a client."""
        sasl = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
        return {"bootstrap.servers": self.brokers, "log_level": 0, **(sasl if self._has_sasl else {})}

    def admin(self) -> AdminClient:
        """Return an admin client."""
        return AdminClient(self.client_config)

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> str:
        """Create a topic and return its name."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        admin = self.admin()
        admin.create_topics([topic])[name].result(30)
        return name

    def add_partitions(self, name: str, count: int) -> None:
        """Increase the number of partitions of a topic."""
        admin = self.admin()
        admin.create_partitions([NewPartitions(name, count)])[name].result(30)

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until it is gone."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(30)
        while name in admin.list_topics(timeout=10).topics:
            time.sleep(0.05)

    def delete_records(self, topic: str, partition: int, offset: int) -> None:
        """Delete the messages of a partition before an offset, as its retention does."""
        admin, key = self.admin(), TopicPartition(topic, partition, offset)
        admin.delete_records([key])[key].result(30)

    def produce(
        self, topic: str, values: Sequence[bytes | None], *, partition: int | None = None, **options: Any
    ) -> None:
        """Write messages and wait until all are acknowledged; equal keys go to the same partition."""
        producer = Producer({**self.client_config, "acks": "all", "linger.ms": 5})
        errors: list[Any] = []
        target: Mapping[str, Any] = {} if partition is None else {"partition": partition}
        for value in values:
            producer.produce(
                topic, value, on_delivery=lambda error, _: errors.append(error) if error else None, **target, **options
            )
        assert producer.flush(30) == 0
        assert not errors

    def _command(self, main: str, *arguments: str) -> list[str]:
        java = str(Path(self._java["JAVA_HOME"]) / "bin" / "java") if self._java.get("JAVA_HOME") else "java"
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", self._class_path]
        return [java, *options, main, *arguments, str(self._folder / "server.properties")]

    def _write_properties(self) -> None:
        port, controller = self._ports
        text = _PROPERTIES.format(
            port=port,
            controller=controller,
            folder=self._folder,
            protocol="SASL_PLAINTEXT" if self._has_sasl else "PLAINTEXT",
            auto_create=str(self._auto_create).lower(),
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / "server.properties").write_text(text + (_SASL if self._has_sasl else ""))


def _download_jars() -> str:
    coordinates = [line.split(":") for line in _COORDINATES.read_text().split()]
    try:
        with ThreadPoolExecutor(8) as pool:
            paths = pool.map(lambda parts: download_jar(parts[0], parts[1], parts[2], JARS), coordinates)
            return ":".join(map(str, paths))
    except NoJarError as error:
        raise NoBrokerError(str(error)) from error


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports
