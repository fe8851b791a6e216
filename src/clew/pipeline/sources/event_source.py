"""Sources of the pipeline: the event log, or a Kafka topic in its role (`topic_source`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position
from clew.lake.lake import Lake
from clew.pipeline.checkpoint import Checkpoint, SourceOffset
from clew.pipeline.sources import log_source
from clew.pipeline.workers import TaskEvent, read_log_events
from clew.progress import ProgressCallback

# Reads the events of a task: Arrow batches of ranges, and the keywords `duplicate_seqs` and `raw_only_ranges`.
LogEventReader = Callable[..., Iterator[TaskEvent]]


class EventSource(ABC):
    """Where the pipeline reads events. Rows of its DataFrames are ranges, which `event_reader` reads in a task."""

    @abstractmethod
    def prepare_checkpoint(self, home: DataDir, lake: Lake, on_progress: ProgressCallback) -> None:
        """Raise ClewError if the checkpoint is of another source; write the first offset of a new one if needed."""

    @abstractmethod
    def restart_offset(self, position: int) -> SourceOffset:
        """Return the offset at which a damaged checkpoint starts again, from its last known position."""

    @abstractmethod
    def load(self, spark: SparkSession, home: DataDir, start: SourceOffset, end: SourceOffset) -> DataFrame:
        """Return the ranges between two offsets."""

    @abstractmethod
    def load_stream(self, spark: SparkSession, home: DataDir, bytes_per_trigger: int | None) -> DataFrame:
        """Return the stream of new ranges, with a limit per batch."""

    @abstractmethod
    def event_reader(self, last_backfilled: int) -> LogEventReader:
        """Return the function that reads the events of ranges in a task; it is pickled.

        Imported events up to the position `last_backfilled` are read with their facets.
        """

    @abstractmethod
    def end_position(self, home: DataDir) -> int:
        """Return the position after the newest event."""


class LogEvents(EventSource):
    """The event log of the data directory."""

    def prepare_checkpoint(self, home: DataDir, lake: Lake, on_progress: ProgressCallback) -> None:  # noqa: ARG002
        """Raise ClewError if the checkpoint is of a topic."""
        self.check_checkpoint(Checkpoint(home.checkpoint))

    def check_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Raise ClewError if a checkpoint is of a topic."""
        if checkpoint.topic:
            message = (
                f"The checkpoint {checkpoint.root} is of the Kafka topic {checkpoint.topic}, not of the event log."
            )
            hint = (
                f"Pass --kafka BROKERS --topic {checkpoint.topic}. Or move the checkpoint away: the log is then read"
                " from its start, and events that the lake contains already are skipped."
            )
            raise ClewError(message, hint=hint)

    def restart_offset(self, position: int) -> SourceOffset:
        """Return the offset of a position."""
        return SourceOffset(position)

    def load(self, spark: SparkSession, home: DataDir, start: SourceOffset, end: SourceOffset) -> DataFrame:
        """Return the byte ranges between two positions."""
        reader = spark.read.format(log_source.FORMAT_NAME).option("cores", spark.sparkContext.defaultParallelism)
        return reader.option("start", start.position).option("end", end.position).load(str(home.log))

    def load_stream(self, spark: SparkSession, home: DataDir, bytes_per_trigger: int | None) -> DataFrame:
        """Return the stream of new byte ranges."""
        home.log.mkdir(parents=True, exist_ok=True)
        cores = spark.sparkContext.defaultParallelism
        reader = spark.readStream.format(log_source.FORMAT_NAME).option("cores", cores)
        if bytes_per_trigger is not None:
            reader = reader.option("bytesPerTrigger", bytes_per_trigger)
        return reader.load(str(home.log))

    def event_reader(self, last_backfilled: int) -> LogEventReader:
        """Return the function that reads lines."""
        return partial(read_log_events, last_backfilled=last_backfilled)

    def end_position(self, home: DataDir) -> int:
        """Return the end of the log."""
        return end_position(home.log)


LOG = LogEvents()
