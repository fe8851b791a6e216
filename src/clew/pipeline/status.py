"""How the pipeline is doing, read from what it leaves behind: no Spark, no Java, no lock."""

from __future__ import annotations

from pathlib import Path

import msgspec
from deltalake import DeltaTable, QueryBuilder
from msgspec import Struct

from clew.collector.intake import waiting_in_streams
from clew.collector.lag import Lag, lag_behind, next_line
from clew.home import Home
from clew.index.reader import IndexReader
from clew.index.store import MissingIndexError
from clew.lake.format import require_lake
from clew.lake.history import CommittedBatch, TableSize, last_batches, table_sizes
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


class _Offset(Struct):
    position: int


_decode_offset = msgspec.json.Decoder(_Offset).decode


def status(home: Home) -> Status:
    """Look at everything once; a pipeline at work is not disturbed."""
    require_lake(home.lake)
    index, open_rejections = _index(home.index)
    after_index = 0 if index is None or index.seq is None else next_line(home.log, index.seq)
    # The index does not tell of events that came again at the end; the checkpoint may have been deleted.
    position = max(after_index, _checkpoint_position(home.checkpoint / "log"))
    return Status(
        home=str(home.root),
        holder=holder_of(home.lake / ".lock"),
        log=lag_behind(home.log, position),
        streams_bytes=waiting_in_streams(home.streams, home.log),
        index=index,
        batches=last_batches(home.lake, _PER_EVENT, _LAST),
        rejected=_rejected(home.lake / _REJECTED, open_rejections),
        tables=table_sizes(home.lake),
    )


def _index(path: Path) -> tuple[Indexed | None, int | None]:
    """What the index says of itself, and how many rejected events were not taken in since."""
    try:
        with IndexReader(path) as index:
            seq = index.meta("indexed_seq")
            indexed = Indexed(index.meta("indexed_at"), index.meta("last_batch"), None if seq is None else int(seq))
            return indexed, index.rejected_count()
    except MissingIndexError:
        return None, None


def _checkpoint_position(folder: Path) -> int:
    """How far Spark has read the log: the offset of the last batch that it has noted as done."""
    batches = [int(path.name) for path in folder.glob("commits/*") if path.name.isdecimal()]
    if not batches:
        return 0
    try:
        # Spark's file of offsets: a version, its own notes, then one line per source.
        last_line = (folder / "offsets" / str(max(batches))).read_bytes().splitlines()[-1]
        return _decode_offset(last_line).position
    except (OSError, IndexError, msgspec.DecodeError):
        return 0


def _rejected(folder: Path, open_count: int | None) -> Rejected:
    table = DeltaTable(str(folder))
    last = QueryBuilder().register("rejected", table).execute(_LAST_REJECTED).read_all()
    return Rejected(table.count(), open_count, [Rejection(**row) for row in last.to_struct_array().to_pylist()])
