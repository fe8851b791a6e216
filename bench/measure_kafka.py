"""Benchmark: a Kafka topic as the source of the pipeline against the event log, and the freshness over Kafka.

The reading of the topic is also compared with Spark's own connector, whose rows pass through the JVM: both write the
same table files from the same messages.

python -m bench.measure_kafka [EVENTS]
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median, quantiles
from unittest.mock import patch

import pyarrow as pa
from bench import generate
from bench.costs import measure_cost
from bench.figures import Baseline, Report
from bench.jars import NoJarError, download_jar
from bench.logs import SEED, Log, open_log, to_incoming
from bench.measure_freshness import PendingAppend, measure_ages, run_stream
from bench.rounds import BUILD, parse_run_size, scratch_folder
from bench.whole_log import IngestCost, RecordedApply, check_event_count, count_events, ingest_log, remove_output
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from tests.support.kafka_broker import KafkaBroker

from clew.data_dir import DataDir
from clew.events.ids import event_id
from clew.events.streams import Stream, decode_event
from clew.index.writer import IndexWriter
from clew.kafka.config import KafkaConfig
from clew.kafka.producer import TopicWriter
from clew.kafka.topics import TopicClient, as_json_partitions
from clew.lake.event_rows import ReceivedEvent
from clew.pipeline.checkpoint import POSITIONS_PER_OFFSET, SourceOffset
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.sources.topic_source import TopicEvents
from clew.pipeline.spark.dataframes import write_events
from clew.pipeline.spark.session import build_session
from clew.pipeline.workers import EventTask, TaskEvent

_PARTITIONS = 4
_EVENTS = 50_000
_ROUNDS = 2
_SECONDS = 30
_APPEND_INTERVAL_SECONDS = 0.25
_EVENTS_PER_APPEND = 50
_WARM_UP_APPENDS = 8
_BASELINE_APPENDS = 20
# Of the connector; the token provider of 4.2.0 is not published.
_CONNECTOR = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)


def main() -> None:
    """Print the figures."""
    run_size = parse_run_size(__doc__)
    report = Report("kafka", run_size)
    log = open_log(run_size.scale(_EVENTS))
    report.log(f"{log.events:,} events, {log.end / log.events:,.0f} bytes each, {_PARTITIONS} partitions")
    with scratch_folder() as folder, KafkaBroker(folder / "broker") as broker:
        topic = KafkaConfig(broker.brokers, broker.create_topic("events", _PARTITIONS))
        with TopicWriter(topic, folder / "import") as writer:
            produced = measure_cost(lambda: produce(log, writer))
        report.log(f"produced, acks=all    {produced.rate(log.events)}")
        jars = download_connector()
        spark = build_session(launcher_dir=folder / "java", conf={"spark.jars": jars} if jars else {})
        measure_sources(log, folder, topic, spark, report)
        if jars:
            measure_readers(log, folder, topic, spark, report)
        spark.stop()
        measure_freshness(broker, folder, run_size.scale(_SECONDS, minimum=2), report)


def produce(log: Log, writer: TopicWriter) -> None:
    """Write the events of a log to the topic."""
    bodies = log.bodies()
    while batch := list(islice(bodies, 5_000)):
        writer.append(to_incoming(batch))


def measure_sources(log: Log, folder: Path, topic: KafkaConfig, spark: SparkSession, report: Report) -> None:
    """Ingest from the log and from the topic, alternating; the first round warms up."""
    log_home, topic_home = log.create_home(folder / "log-home"), DataDir(folder / "topic-home").create()
    ratios, cpu_ratios = [], []
    for number in range(_ROUNDS + 1):
        from_log = ingest_log(log, log_home, spark)
        from_topic = ingest_topic(log, topic_home, topic, spark)
        if number:
            report.log(f"from the log          {from_log.ingestion.rate(log.events)}, {from_log.per_second:,.0f}/s")
            report.log(f"from the topic        {from_topic.ingestion.rate(log.events)}, {from_topic.per_second:,.0f}/s")
            ratios.append(from_topic.per_second / from_log.per_second)
            cpu_ratios.append(from_log.ingestion.cpu / from_topic.ingestion.cpu)
    report.check_min(
        "events/s from Kafka / from the log, median", median(ratios), 0.8, rounds=ratios, cpu_ratio=median(cpu_ratios)
    )


def ingest_topic(log: Log, home: DataDir, topic: KafkaConfig, spark: SparkSession) -> IngestCost:
    """Ingest the topic into tables and index."""
    remove_output(home)
    source = TopicEvents(topic)
    with (
        open_pipeline(home, spark=spark, source=source) as pipeline,
        patch.object(IndexWriter, "apply", RecordedApply()) as recorder,
    ):
        cost = measure_cost(pipeline.ingest_available)
        check_event_count("lake", count_events(pipeline.lake), log.events)
    return IngestCost(cost, recorder.per_second or log.events / cost.wall)


def download_connector() -> str:
    """Download Spark's connector; empty if that is not possible."""
    try:
        return ",".join(str(download_jar(group, name, version, BUILD / "kafka")) for group, name, version in _CONNECTOR)
    except NoJarError:
        return ""


def measure_readers(log: Log, folder: Path, topic: KafkaConfig, spark: SparkSession, report: Report) -> None:
    """Write table files from the topic, read by the workers and by Spark's connector, alternating."""
    offsets = TopicClient(topic).read_offsets()
    start, end = (
        SourceOffset(0, topic.topic, offsets.topic_id, as_json_partitions(partitions))
        for partitions in (offsets.earliest, offsets.latest)
    )
    source = TopicEvents(topic)
    home = DataDir(folder / "reader-home").create()

    def read_in_workers() -> None:
        task = EventTask(str(folder / "workers"), source.event_reader(-1))
        write_events(source.load(spark, home, start, end), task)

    def read_with_connector() -> None:
        frame = spark.read.format("kafka").option("kafka.bootstrap.servers", topic.brokers)
        messages = frame.option("subscribe", topic.topic).option("includeHeaders", "true").load()
        write_events(messages, EventTask(str(folder / "connector"), read_connector_rows))

    ratios = []
    for number in range(_ROUNDS + 1):
        own, connector = measure_cost(read_in_workers), measure_cost(read_with_connector)
        if number:
            report.log(f"table files, workers  {own.rate(log.events)}")
            report.log(f"table files, connector {connector.rate(log.events)}")
            ratios.append(connector.cpu / own.cpu)
    report.compare(
        "table files from Kafka: CPU of Spark's connector / of the workers", median(ratios), "×", rounds=ratios
    )


def read_connector_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[TaskEvent]:
    """Decode the rows of Spark's connector."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("value", "partition", "offset", "timestamp"))
        for value, partition, offset, at in zip(*columns, strict=True):
            source = f"kafka:events/{partition}/{offset}"
            received = ReceivedEvent(event_id(value), offset * POSITIONS_PER_OFFSET, at, source, value, source)
            yield TaskEvent(decode_event(Stream.OPENLINEAGE, value), received)


@dataclass
class PacedProducer:
    """Producer that writes events to a topic of one partition at a constant rate."""

    writer: TopicWriter
    events: Iterator[bytes]
    pending: deque[PendingAppend] = field(default_factory=deque)
    count: int = 0

    def append(self, count: int) -> None:
        """Append a number of times, at a fixed interval."""
        due = time.perf_counter()
        for _ in range(count):
            time.sleep(max(0.0, due - time.perf_counter()))
            self.count += self.writer.append(to_incoming(islice(self.events, _EVENTS_PER_APPEND)))
            self.pending.append(PendingAppend(time.perf_counter(), (self.count - 1) * POSITIONS_PER_OFFSET))
            due += _APPEND_INTERVAL_SECONDS


def measure_freshness(broker: KafkaBroker, folder: Path, seconds: int, report: Report) -> None:
    """Measure the time from the acknowledgement of events until they are visible in the index."""
    topic, home = KafkaConfig(broker.brokers, broker.create_topic("fresh")), DataDir(folder / "fresh").create()
    appends = round(seconds / _APPEND_INTERVAL_SECONDS)
    # Without duplicates: the last event of an append would not become visible.
    generated = generate.generate_events(2 * _EVENTS_PER_APPEND * (appends + _WARM_UP_APPENDS), SEED)
    events = iter(dict.fromkeys(generated))
    ages: list[float] = []
    with TopicWriter(topic, home.log) as writer, run_stream(home, TopicEvents(topic)) as stream:
        producer = PacedProducer(writer, events)
        measure_ages(producer, _WARM_UP_APPENDS, home, stream)
        cost = measure_cost(lambda: ages.extend(measure_ages(producer, appends, home, stream)))
    cuts = quantiles(ages, n=100, method="inclusive")
    report.log(f"{len(ages)} appends of {_EVENTS_PER_APPEND} events; {cost.cpu / cost.wall:.2f} cores in use")
    report.log(f"median {cuts[49]:.2f} s, 99th percentile {cuts[98]:.2f} s, longest {max(ages):.2f} s")
    report.check_max(
        "acknowledged by Kafka → visible, 95th percentile",
        cuts[94],
        2.0,
        " s",
        baseline=Baseline("until a plain consumer has them, 95th percentile", consumer_p95(broker, folder)),
    )


def consumer_p95(broker: KafkaBroker, folder: Path) -> float:
    """Measure the time from the acknowledgement of an append until a plain consumer has received all its events."""
    topic = KafkaConfig(broker.brokers, broker.create_topic("plain"))
    events = generate.generate_events(_BASELINE_APPENDS * _EVENTS_PER_APPEND, SEED)
    consumer = Consumer({"bootstrap.servers": topic.brokers, "group.id": "plain", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic.topic, 0, 0)])
    ages = []
    with TopicWriter(topic, folder / "plain") as writer:
        for _ in range(_BASELINE_APPENDS):
            pending = writer.append(to_incoming(dict.fromkeys(islice(events, _EVENTS_PER_APPEND))))
            acknowledged_at = time.perf_counter()
            while pending > 0:
                pending -= len(consumer.consume(_EVENTS_PER_APPEND, timeout=1))
            ages.append(time.perf_counter() - acknowledged_at)
    consumer.close()
    return quantiles(ages, n=100, method="inclusive")[94]


if __name__ == "__main__":
    main()
