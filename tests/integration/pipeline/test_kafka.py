"""Tests of a Kafka topic as the source: rows equal those of the log, exactly once after kills of driver and broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from openlineage.client.client import OpenLineageClient
from openlineage.client.event_v2 import Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import schema_dataset
from openlineage.client.transport.kafka import KafkaConfig as TransportConfig
from openlineage.client.transport.kafka import KafkaTransport
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import TableRows, append_events, make_event, read_tables, run_pipeline
from tests.integration.pipeline.test_kills import (
    COMMITTED,
    COMMITTING,
    SEED,
    WRITING,
    kill_process,
)
from tests.support.kafka_broker import KafkaBroker

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent
from clew.events.streams import Stream
from clew.kafka.config import KafkaConfig
from clew.kafka.producer import TopicWriter
from clew.lake.lake import Lake
from clew.pipeline import reprocess
from clew.pipeline.checkpoint import POSITIONS_PER_OFFSET, Checkpoint
from clew.pipeline.ingest import IngestStats
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.reprocess import replay_rejected_events
from clew.pipeline.sources.topic_source import TopicEvents, replay_to_topic
from clew.pipeline.status import read_status

EVENT_COUNT = 24
OFFSETS_PER_BATCH = 10
ORIGIN_COLUMNS = (
    *("seq", "first_seq", "last_seq", "state_seq", "error_seq", "job_seq"),
    *("received_at", "created_at", "source", "source_metadata"),
)


@pytest.fixture
def topic(kafka: KafkaBroker) -> str:
    return kafka.create_topic(f"events-{uuid.uuid4().hex}")


@pytest.fixture
def home(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "home").create()


def run_topic(
    home: DataDir,
    brokers: str,
    topic: str,
    spark: SparkSession | None,
    *,
    is_derived: bool = True,
    must_reset: bool = False,
) -> IngestStats:
    """Ingest a topic in batches of a few offsets."""
    source = TopicEvents(KafkaConfig.from_options(brokers, topic), must_reset=must_reset)
    with open_pipeline(home, spark=spark, source=source) as pipeline:
        limited = replace(pipeline, bytes_per_trigger=OFFSETS_PER_BATCH * POSITIONS_PER_OFFSET)
        return limited.run() if is_derived else limited.ingest_available()


def ingest_uninterrupted(folder: Path, kafka: KafkaBroker, topic: str, spark: SparkSession) -> TableRows:
    reference = DataDir(folder)
    run_topic(reference, kafka.brokers, topic, spark, is_derived=False)
    return read_tables(reference)


def rows_of(home: DataDir, table: str) -> list[dict[str, Any]]:
    delta = Lake(home.lake).require_table(table)
    return sorted(delta.to_pyarrow_table().to_pylist(), key=lambda row: row["seq"])


def test_same_rows_as_from_the_log(
    kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession, tmp_path: Path
) -> None:
    bodies = [*map(make_event, range(EVENT_COUNT)), b"no event", make_event(0), b"\xff\xfe", b" "]
    kafka.produce(topic, [*bodies, None], key=b"run:1", headers=[("trace", b"a"), ("raw", b"\xff")])
    stats = run_topic(home, kafka.brokers, topic, spark)
    assert (stats.events, stats.rejected, stats.duplicates, stats.batches) == (EVENT_COUNT, 2, 1, 3)

    from_log = DataDir(tmp_path / "log")
    append_events(from_log, *bodies[:-1])
    run_pipeline(from_log, spark, 1 << 24)
    tables = "lineage_events", "dataset_facets", "run_facets", "rejected_events", "runs", "column_edges", "job_edges"
    expected, actual = (read_tables(data_dir, *ORIGIN_COLUMNS) for data_dir in (from_log, home))
    assert {name: actual[name] for name in tables} == {name: expected[name] for name in tables}
    assert actual["index.events"] == expected["index.events"]

    row = rows_of(home, "lineage_events")[3]
    assert (row["seq"], row["source"]) == (3 * POSITIONS_PER_OFFSET, f"kafka:{topic}/0/3")
    metadata = json.loads(row["source_metadata"])
    assert metadata.pop("timestamp") == row["received_at"].timestamp() * 1000
    assert metadata == {
        "topic": topic,
        "partition": 0,
        "offset": 3,
        "timestampType": "CreateTime",
        "key": "run:1",
        "headers": [["trace", "a"], ["raw", {"base64": "/w=="}]],
    }
    rejected = rows_of(home, "rejected_events")[0]
    assert (rejected["reason"], rejected["body"]) == ("not_json", b"no event")
    assert json.loads(rejected["source_metadata"])["offset"] == EVENT_COUNT
    # Nothing new: no batch.
    assert run_topic(home, kafka.brokers, topic, spark, is_derived=False).batches == 0


def test_partitions_lists_and_streams(kafka: KafkaBroker, home: DataDir, spark: SparkSession) -> None:
    topic = kafka.create_topic(f"partitions-{uuid.uuid4().hex}", 3)
    for partition in range(2):
        first = partition * EVENT_COUNT
        kafka.produce(topic, [*map(make_event, range(first, first + EVENT_COUNT))], partition=partition)
    kafka.produce(topic, [b"[%s, %s]" % (make_event(900), make_event(901))], partition=2)
    runtime = {"event_type": "cell_execution_end", "session_id": "s", "execution_id": "e", "cell_id": "c"}
    runtime["timestamp"] = "2026-01-01T10:00:00Z"
    kafka.produce(topic, [json.dumps(runtime).encode()], partition=2)
    run_topic(home, kafka.brokers, topic, spark, is_derived=False)
    rows = rows_of(home, "lineage_events")
    assert len(rows) == 2 * EVENT_COUNT + 2
    assert len({row["seq"] for row in rows}) == len(rows)
    assert [row["session_id"] for row in rows_of(home, "runtime_events")] == ["s"]
    # A partition that is added later is read from its start.
    kafka.add_partitions(topic, 4)
    kafka.produce(topic, [make_event(902)], partition=3)
    assert run_topic(home, kafka.brokers, topic, spark, is_derived=False).events == 1
    assert rows_of(home, "lineage_events")[-1]["source"] == f"kafka:{topic}/3/0"


def test_events_of_the_openlineage_transport(
    kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession
) -> None:
    config = TransportConfig(config={"bootstrap.servers": kafka.brokers}, topic=topic, flush=True)
    client = OpenLineageClient(transport=KafkaTransport(config))
    facets = {"schema": schema_dataset.SchemaDatasetFacet(fields=[schema_dataset.SchemaDatasetFacetFields("id")])}
    run, job = Run(runId=str(uuid.uuid4())), Job("jobs", "load")
    for state in (RunState.START, RunState.COMPLETE):
        client.emit(
            RunEvent(
                eventType=state,
                eventTime=datetime.now(UTC).isoformat(),
                run=run,
                job=job,
                producer="test",
                outputs=[OutputDataset("db", "orders", facets=facets)],  # type: ignore[arg-type]
            )
        )
    client.close(10)
    assert run_topic(home, kafka.brokers, topic, spark).events == 2
    rows = rows_of(home, "lineage_events")
    assert [row["event_type"] for row in rows] == ["START", "COMPLETE"]
    assert json.loads(rows[0]["source_metadata"])["key"].startswith("run:")
    assert [row["name"] for row in Lake(home.lake).require_table("datasets").to_pyarrow_table().to_pylist()] == [
        "orders"
    ]


def test_kills_of_the_driver(
    kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession, tmp_path: Path
) -> None:
    random = Random(SEED)
    Lake(home.lake).create_or_validate()
    for number, phase in enumerate((WRITING, COMMITTING, COMMITTED)):
        events = [make_event(number * EVENT_COUNT + i) for i in range(EVENT_COUNT)]
        kafka.produce(topic, [*events, b"no event", make_event(0)])
        code = "from tests.integration.pipeline.test_kafka import DataDir, Path, run_topic; "
        code += f"run_topic(DataDir(Path({str(home.root)!r})), {kafka.brokers!r}, {topic!r}, None, is_derived=False)"
        kill_process(["-c", code], home, phase, random)
    run_topic(home, kafka.brokers, topic, spark, is_derived=False)
    assert read_tables(home) == ingest_uninterrupted(tmp_path / "reference", kafka, topic, spark)


def test_kill_of_the_broker(kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    kafka.produce(topic, [make_event(number, "x" * 20_000) for number in range(10 * OFFSETS_PER_BATCH)])
    Lake(home.lake).create_or_validate()
    events = threading.Thread(target=restart_broker, args=(kafka, home))
    source = TopicEvents(KafkaConfig.from_options(kafka.brokers, topic))
    stop = threading.Event()
    with open_pipeline(home, spark=spark, source=source) as pipeline:
        limited = replace(pipeline, bytes_per_trigger=OFFSETS_PER_BATCH * POSITIONS_PER_OFFSET)

        def on_poll() -> None:
            if not events.is_alive() and rows_count(home) == 10 * OFFSETS_PER_BATCH:
                stop.set()

        events.start()
        limited.stream(stop, on_poll)
    events.join()
    assert read_tables(home) == ingest_uninterrupted(tmp_path / "reference", kafka, topic, spark)


def restart_broker(kafka: KafkaBroker, home: DataDir) -> None:
    """Kill the broker when the first batch is committed, and start it again."""
    while rows_count(home) == 0:
        time.sleep(0.05)
    kafka.stop(signal.SIGKILL)
    time.sleep(1)
    kafka.start()


def rows_count(home: DataDir) -> int:
    table = Lake(home.lake).table("lineage_events")
    return 0 if table is None else table.count()


def test_from_the_log_to_a_topic_and_to_another(
    kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession
) -> None:
    append_events(home, *map(make_event, range(4)))
    run_pipeline(home, spark, 1 << 24, is_derived=False)
    kafka.produce(topic, [*map(make_event, range(2, 8))])
    with pytest.raises(ClewError, match="checkpoint is of the event log, not of the topic"):
        run_topic(home, kafka.brokers, topic, spark)
    assert run_topic(home, kafka.brokers, topic, spark, is_derived=False, must_reset=True).duplicates == 2
    seqs = [row["seq"] for row in rows_of(home, "lineage_events")]
    assert len(seqs) == 8
    assert seqs == sorted(seqs)
    with pytest.raises(ClewError, match=f"is of the Kafka topic {topic}, not of the event log"):
        run_pipeline(home, spark, 1 << 24)
    other = kafka.create_topic(f"other-{uuid.uuid4().hex}")
    with pytest.raises(ClewError, match=f"checkpoint is of the topic {topic}, not of {other}"):
        run_topic(home, kafka.brokers, other, spark)
    kafka.produce(other, [make_event(8)])
    assert run_topic(home, kafka.brokers, other, spark, is_derived=False, must_reset=True).events == 1
    assert read_status(home).log.events == 0


def test_topic_that_was_created_again(kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession) -> None:
    kafka.produce(topic, [*map(make_event, range(4))])
    run_topic(home, kafka.brokers, topic, spark, is_derived=False)
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, [*map(make_event, range(2, 6))])
    with pytest.raises(ClewError, match="deleted and created again"):
        run_topic(home, kafka.brokers, topic, spark)
    stats = run_topic(home, kafka.brokers, topic, spark, is_derived=False, must_reset=True)
    assert (stats.events, stats.duplicates) == (2, 2)


def test_offsets_that_retention_removed(kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession) -> None:
    kafka.produce(topic, [*map(make_event, range(4))])
    run_topic(home, kafka.brokers, topic, spark, is_derived=False)
    kafka.produce(topic, [*map(make_event, range(4, 8))])
    kafka.delete_records(topic, 0, 6)
    with pytest.raises(ClewError, match="no offset 4 in partition 0 any more"):
        run_topic(home, kafka.brokers, topic, spark)
    assert run_topic(home, kafka.brokers, topic, spark, is_derived=False, must_reset=True).events == 2


def test_damaged_checkpoint(kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    kafka.produce(topic, [*map(make_event, range(EVENT_COUNT))])
    run_topic(home, kafka.brokers, topic, spark, is_derived=False)
    for path in Checkpoint(home.checkpoint).folder.glob("offsets/*"):
        path.write_bytes(b"")
    kafka.produce(topic, [make_event(EVENT_COUNT)])
    # The last batch is repeated, which changes nothing.
    run_topic(home, kafka.brokers, topic, spark, is_derived=False)
    assert read_tables(home) == ingest_uninterrupted(tmp_path / "reference", kafka, topic, spark)


def test_replayed_and_produced_events(
    kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = json.loads(make_event(1)) | {"schemaURL": "https://openlineage.io/spec/9-0-0/OpenLineage.json"}
    kafka.produce(topic, [json.dumps(newer).encode()])
    assert run_topic(home, kafka.brokers, topic, spark, is_derived=False).rejected == 1
    with pytest.raises(ClewError, match=f"reads the Kafka topic {topic}"):
        replay_rejected_events(home)
    config = KafkaConfig.from_options(kafka.brokers, topic)
    assert replay_to_topic(home, config).still_rejected == 1
    # As if this were a newer clew.
    monkeypatch.setattr(reprocess, "_can_decode", lambda _: True)
    assert replay_to_topic(home, config).replayed == 1
    assert replay_to_topic(home, config).already_queued == 1
    with TopicWriter(config, home.log) as log:
        assert log.append([IncomingEvent(Stream.OPENLINEAGE, "client/1.0", make_event(2))]) == 1
    status = read_status(home)
    assert status.topic is not None
    assert (status.topic.name, status.topic.latest) == (topic, {"0": 1}), "as the last pipeline has seen it"
    stats = run_topic(home, kafka.brokers, topic, spark, is_derived=False)
    assert (stats.events, stats.duplicates) == (1, 1)
    row = rows_of(home, "lineage_events")[-1]
    assert json.loads(row["source_metadata"])["headers"] == [["clew-source", "client/1.0"]]
    assert json.loads(row["source_metadata"])["key"] == "run:run-0"


def test_unreachable_broker(home: DataDir, kafka: KafkaBroker) -> None:
    for brokers, topic, message in (
        ("127.0.0.1:1", "t", "no broker answers"),
        (kafka.brokers, "missing", "the topic does not exist"),
    ):
        source = TopicEvents(KafkaConfig.from_options(brokers, topic))
        with pytest.raises(ClewError, match=message), open_pipeline(home, source=source):
            pass
        with pytest.raises(ClewError, match=message), TopicWriter(KafkaConfig.from_options(brokers, topic), home.log):
            pass


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[KafkaBroker]:
    with KafkaBroker(tmp_path / "secured", has_sasl=True) as broker:
        yield broker


def test_credentials(secured: KafkaBroker, home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    topic = secured.create_topic("events")
    secured.produce(topic, [make_event(1)])
    properties = tmp_path / "client.properties"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="clew" password="{}";'
    properties.write_text(
        "# of a Java client\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={jaas.format('wrong-secret')}\n"
    )
    config = KafkaConfig.from_options(secured.brokers, topic, [str(properties)])
    with (
        pytest.raises(ClewError, match="the credentials were rejected") as raised,
        open_pipeline(home, source=TopicEvents(config)),
    ):
        pass
    assert "wrong-secret" not in str(raised.value) + repr(config)
    config = KafkaConfig.from_options(secured.brokers, topic, [str(properties), "sasl.password=correct-horse"])
    with open_pipeline(home, spark=spark, source=TopicEvents(config)) as pipeline:
        assert pipeline.ingest_available().events == 1
    assert b"correct-horse" not in b"".join(path.read_bytes() for path in home.root.rglob("*") if path.is_file())


def test_second_pipeline(kafka: KafkaBroker, topic: str, home: DataDir, spark: SparkSession) -> None:
    source = TopicEvents(KafkaConfig.from_options(kafka.brokers, topic))
    command = ["-m", "clew", "pipeline", "run", "--kafka", kafka.brokers, "--topic", topic, "--home", str(home.root)]
    with open_pipeline(home, spark=spark, source=source):
        result = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False, env=dict(os.environ), timeout=60
        )
    assert result.returncode == 1
    assert "Another pipeline" in result.stderr or "is running" in result.stderr
