"""Spark data source of a Kafka topic, for batch and streaming reads. Its rows are ranges of offsets.

Events do not pass through the JVM: a worker reads the range from the brokers itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position, read_known_end
from clew.index.queries.reader import IndexReader
from clew.kafka.config import KafkaConfig
from clew.kafka.consumer import RESET_HINT, OffsetRange, lost_offsets_error
from clew.kafka.producer import TopicWriter
from clew.kafka.topics import KafkaConnectionError, TopicClient, TopicOffsets, as_json_partitions
from clew.lake.compaction import delete_rows_from
from clew.lake.lake import BatchId, Lake
from clew.lake.manifest import check_integrity
from clew.lake.refresh_state import RefreshState
from clew.pipeline.checkpoint import (
    POSITIONS_PER_OFFSET,
    Checkpoint,
    SourceOffset,
    TopicState,
    write_topic_state,
)
from clew.pipeline.reprocess import ReplayStats, replay_events
from clew.pipeline.sources.event_source import EventSource, LogEventReader
from clew.pipeline.sources.log_source import RangeReader, RangesPartition
from clew.pipeline.spark.cluster import register_source
from clew.pipeline.spark.topic_tasks import read_topic_events
from clew.progress import ProgressCallback

FORMAT_NAME = "clew_topic"
# 128 MB at that size.
MAX_OFFSETS_PER_TASK = 32_768
_MIN_OFFSETS_PER_TASK = 256
# A broker that is restarted answers within this time; then the stream ends with an error.
_MAX_OUTAGE_SECONDS = 300.0
_SECONDS_PER_RECORD = 1.0
_COLUMNS = "topic string, partition int, start bigint, end bigint, position bigint"


class TopicEvents(EventSource):
    """A Kafka topic in the role of the event log."""

    def __init__(self, config: KafkaConfig, *, must_reset: bool = False) -> None:
        self._config = config
        self._must_reset = must_reset

    def prepare_checkpoint(self, home: DataDir, lake: Lake, on_progress: ProgressCallback) -> None:
        """Check that the checkpoint is of this topic; start a new one, or with `must_reset`, at its first offsets."""
        checkpoint = Checkpoint(home.checkpoint)
        offsets = TopicClient(self._config).read_offsets()
        stored = checkpoint.batch_offset(checkpoint.last_planned_batch)
        if stored is not None and not self._must_reset:
            check_offsets(self._config, stored, offsets)
            return
        if stored is not None and not stored.topic and stored.position < end_position(home.log):
            message = f"The log {home.log} has events that are not ingested."
            raise ClewError(message, hint="Ingest them with `clew pipeline run`, without --kafka, first.")
        _delete_incomplete_batch(checkpoint, lake)
        position = _next_position(home, lake, 0 if stored is None else stored.position)
        # The index must know all events of the lake, so that they are skipped when they are read again.
        has_events = any(lake.row_counts().values())
        checkpoint.restart(self._first_offset(offsets, position), must_reindex=has_events)
        on_progress(f"Reading {self._config} from its first offset")

    def restart_offset(self, position: int) -> SourceOffset:
        """Return the offset at which the whole topic is read again."""
        return self._first_offset(TopicClient(self._config).read_offsets(), position)

    def _first_offset(self, offsets: TopicOffsets, position: int) -> SourceOffset:
        return SourceOffset(position, self._config.topic, offsets.topic_id, as_json_partitions(offsets.earliest))

    def load(self, spark: SparkSession, home: DataDir, start: SourceOffset, end: SourceOffset) -> DataFrame:  # noqa: ARG002
        """Return the ranges between two offsets."""
        register_source(spark, _source_class(self._config))
        reader = spark.read.format(FORMAT_NAME).option("cores", spark.sparkContext.defaultParallelism)
        return reader.option("start", start.encode().decode()).option("end", end.encode().decode()).load()

    def load_stream(self, spark: SparkSession, home: DataDir, bytes_per_trigger: int | None) -> DataFrame:
        """Return the stream of new ranges."""
        register_source(spark, _source_class(self._config))
        cores = spark.sparkContext.defaultParallelism
        reader = spark.readStream.format(FORMAT_NAME).option("cores", cores).option("state", str(home.checkpoint))
        if bytes_per_trigger is not None:
            reader = reader.option("offsetsPerTrigger", max(1, bytes_per_trigger // POSITIONS_PER_OFFSET))
        return reader.load()

    def event_reader(self, last_backfilled: int) -> LogEventReader:  # noqa: ARG002  # events are imported into logs only
        """Return the function that reads the events of ranges in a task."""
        return partial(read_topic_events, config=self._config)

    def read_queued_ids(self, home: DataDir) -> set[str]:
        """Return the ids of the events that are in the topic and not ingested."""
        checkpoint = Checkpoint(home.checkpoint)
        start = checkpoint.batch_offset(checkpoint.last_committed_batch)
        if start is None or start.topic != self._config.topic:
            return set()
        end = advance_offset(start, TopicClient(self._config).read_offsets().latest)
        parts = pa.RecordBatch.from_pylist([asdict(part) for part in plan_ranges(start, end)])
        return {item.origin.event_id for item in read_topic_events(iter([parts]), config=self._config)}

    def end_position(self, home: DataDir) -> int:
        """Return the position of the newest message; the committed one if no broker answers."""
        checkpoint = Checkpoint(home.checkpoint)
        committed = checkpoint.batch_offset(checkpoint.last_committed_batch)
        if committed is None:
            return 0
        try:
            return advance_offset(committed, TopicClient(self._config, timeout=2).read_offsets().latest).position
        except ClewError:
            return committed.position


def replay_to_topic(home: DataDir, config: KafkaConfig, reason: str | None = None) -> ReplayStats:
    """Produce rejected events that can be decoded now to the topic; the next run ingests them."""
    check_integrity(home.lake)
    source = TopicEvents(config)
    stored = Checkpoint(home.checkpoint)
    offset = stored.batch_offset(stored.last_committed_batch)
    if offset is not None:
        check_offsets(config, offset, TopicClient(config).read_offsets())
    with TopicWriter(config, home.log) as log, IndexReader(home.index) as index:
        return replay_events(home, reason, log, index, source.read_queued_ids(home))


def _next_position(home: DataDir, lake: Lake, position: int) -> int:
    """Return a position after all of the log, the lake and the checkpoint."""
    last = RefreshState.of(lake).last_position
    return max(position, last + 1, end_position(home.log), read_known_end(home.log))


def _delete_incomplete_batch(checkpoint: Checkpoint, lake: Lake) -> None:
    """Delete the rows of an interrupted batch that not all tables have: it cannot be repeated from other offsets."""
    plan = checkpoint.read_plan()
    if plan is not None and plan.start < plan.end and lake.is_incomplete(BatchId(plan.app_id, plan.number)):
        delete_rows_from(lake, plan.start)


def check_offsets(config: KafkaConfig, stored: SourceOffset, offsets: TopicOffsets) -> None:
    """Raise if a checkpoint is not of this topic, or if the topic lacks offsets that were not read."""
    if not stored.topic:
        message = f"The checkpoint is of the event log, not of the topic {config.topic}."
        hint = (
            "To continue with the topic, run the command once with --reset-offsets: the lake keeps its history. Or omit"
            " --kafka to ingest the log."
        )
        raise ClewError(message, hint=hint)
    if stored.topic != config.topic:
        message = f"The checkpoint is of the topic {stored.topic}, not of {config.topic}."
        raise ClewError(message, hint=f"Pass --topic {stored.topic}. {RESET_HINT}")
    if stored.topic_id and offsets.topic_id and stored.topic_id != offsets.topic_id:
        message = f"The topic {config.topic} was deleted and created again since the last batch."
        raise ClewError(message, hint=RESET_HINT)
    for name, offset in stored.partitions.items():
        partition = int(name)
        first, end = offsets.earliest.get(partition), offsets.latest.get(partition)
        if first is None or end is None or offset < first or offset > end:
            raise lost_offsets_error(config.topic, partition, offset)


def advance_offset(start: SourceOffset, ends: Mapping[int, int], limit: int | None = None) -> SourceOffset:
    """Return the offset after at most `limit` messages, shared by the partitions in proportion to what they have."""
    starts = {int(name): offset for name, offset in start.partitions.items()}
    # A partition that was added later is read from its start.
    backlog = {partition: max(0, end - starts.get(partition, 0)) for partition, end in ends.items()}
    total = sum(backlog.values())
    if not total:
        return start
    share = 1.0 if limit is None or total <= limit else limit / total
    steps = {partition: min(count, ceil(count * share)) for partition, count in backlog.items()}
    reached = {partition: starts.get(partition, 0) + steps.get(partition, 0) for partition in {*starts, *backlog}}
    position = start.position + POSITIONS_PER_OFFSET * sum(steps.values())
    return SourceOffset(position, start.topic, start.topic_id, as_json_partitions(reached))


class TopicSource(DataSource):
    """Ranges of offsets of a topic. The settings are in a subclass, so that no plan or log of Spark shows them."""

    config: ClassVar[KafkaConfig]

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._cores = int(options.get("cores", 1))
        self._limit = int(options.get("offsetsPerTrigger", self._cores * MAX_OFFSETS_PER_TASK))

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT_NAME

    def schema(self) -> str:
        """Return the columns of a range."""
        return _COLUMNS

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002
        """Read the ranges between the options `start` and `end`."""
        start, end = (_decode(json.loads(self.options[name])) for name in ("start", "end"))
        return _TopicReader(self._cores, start, end)

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: N802, ARG002
        """Stream new ranges."""
        return _TopicStreamReader(self.config, self._cores, self._limit, Path(self.options["state"]))


def _source_class(config: KafkaConfig) -> type[TopicSource]:
    """Return the source of a topic. A local class is pickled with its attributes."""
    return type("ConfiguredTopicSource", (TopicSource,), {"config": config, "__module__": "__main__"})


class _TopicReader(RangeReader, DataSourceReader):
    def __init__(self, cores: int, start: SourceOffset, end: SourceOffset) -> None:
        self._cores, self._start, self._end = cores, start, end

    def partitions(self) -> Sequence[InputPartition]:
        return plan_topic_tasks(self._start, self._end, self._cores)


class _TopicStreamReader(RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, config: KafkaConfig, cores: int, limit: int, checkpoint: Path) -> None:
        self._config = config
        self._checkpoint = checkpoint
        self._recorded_at = 0.0
        self._latest: dict[int, int] = {}
        self._cores = cores
        self._limit = limit
        self._client: TopicClient | None = None
        self._target: dict[int, int] | None = None
        self._outage_started_at: float | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._offsets().latest

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        # Not used: each checkpoint starts with a batch that has the first offsets.
        offsets = self._offsets()
        first = SourceOffset(0, self._config.topic, offsets.topic_id, as_json_partitions(offsets.earliest))
        return msgspec.to_builtins(first)  # type: ignore[no-any-return]

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        stored = _decode(start)
        ends = self._target
        if ends is None:
            try:
                offsets = self._offsets()
            except KafkaConnectionError as error:
                if self._is_long_outage():
                    raise
                self._record(error.message)
                # The next trigger asks again.
                return start
            self._outage_started_at = None
            check_offsets(self._config, stored, offsets)
            ends = offsets.latest
        end = advance_offset(stored, ends, None if isinstance(limit, ReadAllAvailable) else self._limit)
        return start if end is stored else msgspec.to_builtins(end)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return plan_topic_tasks(_decode(start), _decode(end), self._cores)

    def _offsets(self) -> TopicOffsets:
        if self._client is None:
            self._client = TopicClient(self._config)
        offsets = self._client.read_offsets()
        self._latest = offsets.latest
        self._record()
        return offsets

    def _record(self, error: str | None = None) -> None:
        """Store the last offsets for the status, at most once per second."""
        now = time.monotonic()
        if now - self._recorded_at >= _SECONDS_PER_RECORD:
            self._recorded_at = now
            at = datetime.now(UTC).isoformat(timespec="seconds")
            state = TopicState(self._config.brokers, self._config.topic, as_json_partitions(self._latest), at, error)
            write_topic_state(self._checkpoint, state)

    def _is_long_outage(self) -> bool:
        now = time.monotonic()
        self._outage_started_at = self._outage_started_at or now
        return now - self._outage_started_at > _MAX_OUTAGE_SECONDS


def _decode(offset: dict[str, Any]) -> SourceOffset:
    return msgspec.convert(offset, SourceOffset)


def plan_topic_tasks(start: SourceOffset, end: SourceOffset, cores: int) -> Sequence[InputPartition]:
    """Split the offsets of a batch into tasks of equal size: one per core, fewer if they are small."""
    ranges = plan_ranges(start, end)
    total = sum(part.end - part.start for part in ranges)
    count = max(ceil(total / MAX_OFFSETS_PER_TASK), min(cores, ceil(total / _MIN_OFFSETS_PER_TASK)))
    step = ceil(total / max(1, count))
    tasks: list[list[OffsetRange]] = []
    room = 0
    for part in ranges:
        first = part.start
        while first < part.end:
            if not room:
                tasks.append([])
                room = step
            stop = min(part.end, first + room)
            shifted = part.position + POSITIONS_PER_OFFSET * (first - part.start)
            tasks[-1].append(OffsetRange(part.topic, part.partition, first, stop, shifted))
            room -= stop - first
            first = stop
    return [RangesPartition(parts) for parts in tasks]


def plan_ranges(start: SourceOffset, end: SourceOffset) -> list[OffsetRange]:
    """Return the ranges of all partitions between two offsets; their positions follow each other."""
    ranges, position = [], start.position
    for name, stop in end.partitions.items():
        first = start.partitions.get(name, 0)
        if stop > first:
            ranges.append(OffsetRange(end.topic, int(name), first, stop, position))
            position += POSITIONS_PER_OFFSET * (stop - first)
    return ranges
