"""Events that were taken in without their facets, and which of them have got them since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from clew.events.openlineage import Event, decode
from clew.events.rejection import RejectedError
from clew.lake.arrival import Arrival
from clew.lake.delta import Lake
from clew.lake.scan import Span, in_order_received, rows_within
from clew.lake.storage import storage_at
from clew.lake.tables import BACKFILLS, LINEAGE_EVENTS

ARRIVAL_COLUMNS = ("event_id", "seq", "received_at", "source", "event")
_IS_RAW_ONLY = "is_raw_only"
_EVERYTHING = Span("seq", 0, 2**63 - 1)
# An event may be 10 MB.
_ROWS_PER_BATCH = 16


class Chunk(NamedTuple):
    """The raw-only events between two positions, both included, which were given their facets together."""

    first_seq: int
    last_seq: int


class Filled:
    """Where in the log raw-only events have their facets: the chunks that backfills have finished."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self._spans = list(_joined(chunks))

    def covers(self, first_seq: int, last_seq: int) -> bool:
        """Whether all that stands between two positions is filled."""
        return any(span.first_seq <= first_seq and last_seq <= span.last_seq for span in self._spans)

    def end_below(self, seq: int) -> int:
        """The last filled position before one that is not; -1 if there is none."""
        return max((span.last_seq for span in self._spans if span.last_seq < seq), default=-1)

    @property
    def end(self) -> int:
        """The last filled position; -1 if there is none."""
        return self._spans[-1].last_seq if self._spans else -1


def filled(lake: Lake) -> Filled:
    """What backfills have done so far. Ask before reading facets: a chunk that is finished then has all of them."""
    table = lake.table(BACKFILLS.name)
    if table is None:
        return Filled([])
    rows = table.to_pyarrow_table(columns=list(Chunk._fields), filesystem=lake.storage.filesystem(BACKFILLS.name))
    return Filled([Chunk(**row) for row in rows.to_pylist()])


def is_unfilled_anywhere(lake: Lake, done: Filled) -> bool:
    """Whether there may be an event without its facets: told by the statistics of files, without opening any."""
    table = lake.table(LINEAGE_EVENTS.name)
    if table is None or _IS_RAW_ONLY not in {field.name for field in table.schema().fields}:
        return False
    actions = pa.table(table.get_add_actions(flatten=True))
    names = ("num_records", f"null_count.{_IS_RAW_ONLY}", "min.seq", "max.seq")
    columns = (actions[name].to_pylist() if name in actions.column_names else [None] * len(actions) for name in names)
    return any(
        rows != nulls and not (low is not None and high is not None and done.covers(low, high))
        for rows, nulls, low, high in zip(*columns, strict=True)
    )


def unfilled(lake: Lake, done: Filled, span: Span = _EVERYTHING) -> list[int]:
    """The positions of events within a span that still lack their facets, in order."""
    wanted = span.filter() & pc.field(_IS_RAW_ONLY)
    rows = rows_within(lake, LINEAGE_EVENTS, span).to_table(columns=["seq"], filter=wanted)
    return sorted(seq for seq in rows["seq"].to_pylist() if not done.covers(seq, seq))


def raw_events(lake: Lake, span: Span, positions: list[int]) -> Iterator[dict[str, Any]]:
    """The events at these positions, read a few at a time."""
    wanted = span.filter() & pc.field("seq").isin(pa.array(positions, pa.int64()))
    scanner = rows_within(lake, LINEAGE_EVENTS, span).scanner(
        columns=list(ARRIVAL_COLUMNS), filter=wanted, batch_size=_ROWS_PER_BATCH, batch_readahead=0
    )
    for batch in scanner.to_batches():
        yield from in_order_received(pa.Table.from_batches([batch]))


def raw_events_in(root: str, files: Sequence[str], chunk: Chunk) -> Iterator[dict[str, Any]]:
    """The raw-only events of a chunk in the order received, whatever the order of rows in the files is."""
    wanted = Span("seq", chunk.first_seq, chunk.last_seq).filter() & pc.field(_IS_RAW_ONLY)
    source = storage_at(f"{root}/{LINEAGE_EVENTS.name}").dataset(list(files), LINEAGE_EVENTS.schema)
    return in_order_received(source.to_table(columns=list(ARRIVAL_COLUMNS), filter=wanted))


def opened(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[Event, Arrival]]:
    """Raw events as they were when they came in; one that this clew can no longer read has no facets for it."""
    for row in rows:
        body: bytes = row["event"]
        try:
            yield decode(body), Arrival(row["event_id"], row["seq"], row["received_at"], row["source"], body)
        except RejectedError:
            continue


def _joined(chunks: list[Chunk]) -> Iterator[Chunk]:
    """Chunks that touch or overlap as one, in order."""
    last: Chunk | None = None
    for chunk in sorted(chunks):
        if last is not None and chunk.first_seq <= last.last_seq + 1:
            last = Chunk(last.first_seq, max(last.last_seq, chunk.last_seq))
            continue
        if last is not None:
            yield last
        last = chunk
    if last is not None:
        yield last
