"""How the pipeline is doing, read from what it leaves behind: no Spark, no Java, no lock."""

from __future__ import annotations

from deltalake import DeltaTable, QueryBuilder
from msgspec import Struct
from msgspec.structs import replace

from clew.collector.intake import waiting_in_streams
from clew.collector.lag import Lag, lag_behind, next_line
from clew.home import Home, Place
from clew.index.reader import IndexReader
from clew.index.store import MissingIndexError
from clew.lake.history import CommittedBatch, TableSize, last_batches, table_sizes
from clew.lake.soundness import require_sound_lake
from clew.lake.storage import storage_at
from clew.lake.unfilled import unfilled_count
from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.journal import TakenBatch, noted
from clew.pipeline.lock import Holder, holder_of

_LAST = 5
_REJECTED = "rejected_events"
# Each event of a batch has a row in one of these.
_PER_EVENT = ("lineage_events", "runtime_events", "dataframe_events", _REJECTED)
_LAST_REJECTED = f"select source, reason, detail from rejected order by seq desc limit {_LAST}"  # noqa: S608


class Rejection(Struct, frozen=True):
    """Why an event was rejected."""

    source: str | None
    reason: str | None
    detail: str | None


class Rejected(Struct, frozen=True):
    """All rejected events, those of them that were not taken in since, and the last few."""

    count: int
    open: int | None
    last: list[Rejection]


class Indexed(Struct, frozen=True):
    """When the index took its last batch, which that was, and the position of its last event."""

    at: str | None
    batch: str | None
    seq: int | None


class Status(Struct, frozen=True):
    """The whole answer."""

    home: str
    holder: Holder | None
    log: Lag
    streams_bytes: int
    index: Indexed | None
    batches: list[CommittedBatch]
    rejected: Rejected
    tables: list[TableSize]
    # Events that were taken in raw and that no backfill has reached yet.
    without_facets: int = 0


def status(home: Home) -> Status:
    """Look at everything once; a pipeline at work is not disturbed."""
    require_sound_lake(home.lake)
    index, open_rejections = _index(home.index)
    after_index = 0 if index is None or index.seq is None else next_line(home.log, index.seq)
    # The index does not tell of events that came again at the end; the checkpoint may have been deleted.
    position = max(after_index, Checkpoint(home.checkpoint).position)
    return Status(
        home=str(home.root),
        holder=holder_of(home.lake / ".lock"),
        log=lag_behind(home.log, position),
        streams_bytes=waiting_in_streams(home.streams, home.log),
        index=index,
        batches=_timed(last_batches(home.lake, _PER_EVENT, _LAST), noted(home.checkpoint)),
        rejected=_rejected(storage_at(home.lake).open_table(_REJECTED), open_rejections),
        tables=table_sizes(home.lake),
        without_facets=unfilled_count(home.lake),
    )


def _timed(batches: list[CommittedBatch], times: list[TakenBatch]) -> list[CommittedBatch]:
    """The batches with what the pipeline has noted of them."""
    known = {(time.app, time.number): time for time in times}
    return [_with_time(batch, known.get((batch.app, batch.number))) for batch in batches]


def _with_time(batch: CommittedBatch, time: TakenBatch | None) -> CommittedBatch:
    if time is None:
        return batch
    events = time.events + time.rejected + time.repeated
    return replace(batch, seconds=time.seconds, events_per_second=round(events / max(time.seconds, 0.001), 1))


def _index(place: Place) -> tuple[Indexed | None, int | None]:
    """What the index says of itself, and how many rejected events were not taken in since."""
    try:
        with IndexReader(place) as index:
            seq = index.meta("indexed_seq")
            indexed = Indexed(index.meta("indexed_at"), index.meta("last_batch"), None if seq is None else int(seq))
            return indexed, index.rejected_count()
    except MissingIndexError:
        return None, None


def _rejected(table: DeltaTable, open_count: int | None) -> Rejected:
    last = QueryBuilder().register("rejected", table).execute(_LAST_REJECTED).read_all()
    return Rejected(table.count(), open_count, [Rejection(**row) for row in last.to_struct_array().to_pylist()])
