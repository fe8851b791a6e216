"""Status of the pipeline, read without Spark, Java or a lock."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from clew.collector.file_import import pending_stream_bytes
from clew.data_dir import DataDir, IndexLocation
from clew.eventlog.retention import Lag, next_position
from clew.events.decoding import RejectionReason
from clew.index.backends.sqlite import MissingIndexError
from clew.index.queries.reader import IndexReader
from clew.lake.history import (
    CommittedBatch,
    Rejection,
    TableSize,
    count_pending_backfill,
    count_rejections,
    read_table_sizes,
    recent_batches,
    recent_rejections,
)
from clew.lake.manifest import check_integrity
from clew.lake.storage import open_storage
from clew.pipeline.checkpoint import (
    BatchRecord,
    Checkpoint,
    SourceOffset,
    measure_source_lag,
    read_batch_records,
    read_topic_state,
)
from clew.pipeline.locks import PIPELINE_LOCK, LockHolder, read_lock_holder
from clew.pipeline.spark.application import SparkApplication, read_application
from clew.pipeline.supervisor import SupervisorState, read_supervisor_state

_MAX_SHOWN = 5
_REJECTED = "rejected_events"
# Tables with one row per event. Not from `lake.schemas`, which imports pyarrow.
_EVENT_TABLES = ("lineage_events", "runtime_events", "dataframe_events", _REJECTED)


class RejectionSummary(Struct, frozen=True):
    """Number of rejected events, of those not ingested since, of damaged records of the log, and the newest ones."""

    count: int
    unresolved: int | None
    last: list[Rejection]
    corrupt_records: int = 0


class IndexStatus(Struct, frozen=True):
    """Time and id of the last batch in the index, and the position of its last event."""

    at: str | None
    batch: str | None
    seq: int | None


class TopicStatus(Struct, frozen=True):
    """Committed and last offsets of a topic by partition, when the last were read, and the error of the brokers."""

    name: str
    brokers: str | None
    offsets: dict[str, int]
    latest: dict[str, int]
    read_at: str | None
    error: str | None


class PipelineStatus(Struct, frozen=True):
    """Status of log, lake, index and lock of a data directory."""

    home: str
    locked_by: LockHolder | None
    log: Lag
    unread_stream_bytes: int
    index: IndexStatus | None
    batches: list[CommittedBatch]
    rejected: RejectionSummary
    tables: list[TableSize]
    # Raw-only events that are not backfilled yet.
    pending_backfill_events: int = 0
    # Set while `clew up` runs.
    supervisor: SupervisorState | None = None
    # Set while a pipeline runs.
    spark: SparkApplication | None = None
    # Set if a Kafka topic is read instead of the log.
    topic: TopicStatus | None = None


def read_status(home: DataDir) -> PipelineStatus:
    """Read the status; safe while a pipeline runs."""
    check_integrity(home.lake)
    index, unresolved = _read_index(home.index)
    after_index = 0 if index is None or index.seq is None else next_position(home.log, index.seq)
    rejected = open_storage(home.lake).open_table(_REJECTED).count()
    # The index lacks trailing duplicates; the checkpoint may have been deleted.
    checkpoint = Checkpoint(home.checkpoint)
    position = max(after_index, checkpoint.committed_offset)
    source = checkpoint.batch_offset(checkpoint.last_committed_batch)
    return PipelineStatus(
        home=str(home.root),
        locked_by=read_lock_holder(home.lake / PIPELINE_LOCK),
        log=measure_source_lag(home, position, source),
        unread_stream_bytes=pending_stream_bytes(home.streams, home.log),
        index=index,
        batches=_with_durations(
            recent_batches(home.lake, _EVENT_TABLES, _MAX_SHOWN), read_batch_records(home.checkpoint)
        ),
        rejected=RejectionSummary(
            rejected,
            unresolved,
            recent_rejections(home.lake),
            count_rejections(home.lake, RejectionReason.CORRUPT_RECORD) if rejected else 0,
        ),
        tables=read_table_sizes(home.lake),
        pending_backfill_events=count_pending_backfill(home.lake),
        supervisor=read_supervisor_state(home),
        spark=read_application(home),
        topic=None if source is None or not source.topic else _read_topic(home, source),
    )


def _read_topic(home: DataDir, source: SourceOffset) -> TopicStatus:
    state = read_topic_state(home.checkpoint)
    if state is None or state.topic != source.topic:
        return TopicStatus(source.topic, None, source.partitions, {}, None, None)
    return TopicStatus(source.topic, state.brokers, source.partitions, state.latest, state.read_at, state.error)


def without_names(status: PipelineStatus) -> PipelineStatus:
    """Return the status without what names or counts entities, for keys limited to namespaces."""
    return replace(status, rejected=RejectionSummary(0, None, []), batches=[], tables=[], spark=None)


def _with_durations(batches: list[CommittedBatch], records: list[BatchRecord]) -> list[CommittedBatch]:
    """Join committed batches with the durations of the batch history."""
    by_id = {(record.app_id, record.number): record for record in records}
    return [_with_duration(batch, by_id.get((batch.app_id, batch.number))) for batch in batches]


def _with_duration(batch: CommittedBatch, record: BatchRecord | None) -> CommittedBatch:
    if record is None:
        return batch
    events = record.events + record.rejected + record.duplicates
    return replace(batch, seconds=record.seconds, events_per_second=round(events / max(record.seconds, 0.001), 1))


def _read_index(location: IndexLocation) -> tuple[IndexStatus | None, int | None]:
    """Read the state of the index and the number of unresolved rejected events."""
    try:
        with IndexReader(location) as index:
            seq = index.meta("indexed_seq")
            indexed = IndexStatus(index.meta("indexed_at"), index.meta("last_batch"), None if seq is None else int(seq))
            return indexed, index.rejected_count()
    except MissingIndexError:
        return None, None
