"""Raw-only events and backfilled ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from clew.events.decoding import RejectedError
from clew.events.openlineage import Event, decode_openlineage
from clew.lake.event_rows import ReceivedEvent
from clew.lake.lake import Lake
from clew.lake.scan import ValueRange, iter_by_seq, scan_range
from clew.lake.schemas import BACKFILLS, LINEAGE_EVENTS
from clew.lake.storage import open_storage

EVENT_COLUMNS = ("event_id", "seq", "received_at", "source", "event")
_IS_RAW_ONLY = "is_raw_only"
_ALL_POSITIONS = ValueRange("seq", 0, 2**63 - 1)
# An event may be 10 MB.
_ROWS_PER_BATCH = 16


class Chunk(NamedTuple):
    """A range of log positions, inclusive: its raw-only events are backfilled together."""

    first_seq: int
    last_seq: int


class BackfilledRanges:
    """Log ranges that are backfilled."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self._ranges = _merge_adjacent(chunks)

    def covers(self, first_seq: int, last_seq: int) -> bool:
        """Return whether the whole range is backfilled."""
        return any(
            value_range.first_seq <= first_seq and last_seq <= value_range.last_seq for value_range in self._ranges
        )

    def previous_end(self, seq: int) -> int:
        """Return the last backfilled position below `seq`; -1 if there is none."""
        return max((value_range.last_seq for value_range in self._ranges if value_range.last_seq < seq), default=-1)

    @property
    def end(self) -> int:
        """The last backfilled position; -1 if there is none."""
        return self._ranges[-1].last_seq if self._ranges else -1


def read_backfilled_ranges(lake: Lake) -> BackfilledRanges:
    """Read the backfilled ranges. Call before reading facets, so that a listed chunk has all of its facets."""
    return BackfilledRanges(read_chunks(lake))


def read_chunks(lake: Lake) -> list[Chunk]:
    """Read the backfilled chunks, ordered by number."""
    table = lake.table(BACKFILLS.name)
    if table is None:
        return []
    columns = ["number", *Chunk._fields]
    rows = table.to_pyarrow_table(columns=columns, filesystem=lake.storage.filesystem(BACKFILLS.name))
    return [Chunk(row["first_seq"], row["last_seq"]) for row in rows.sort_by("number").to_pylist()]


def has_pending_backfill(lake: Lake, backfilled: BackfilledRanges) -> bool:
    """Return whether an event may lack its facets, by file statistics only."""
    table = lake.table(LINEAGE_EVENTS.name)
    if table is None or _IS_RAW_ONLY not in {field.name for field in table.schema().fields}:
        return False
    actions = pa.table(table.get_add_actions(flatten=True))
    names = ("num_records", f"null_count.{_IS_RAW_ONLY}", "min.seq", "max.seq")
    columns = (actions[name].to_pylist() if name in actions.column_names else [None] * len(actions) for name in names)
    return any(
        rows != nulls and not (low is not None and high is not None and backfilled.covers(low, high))
        for rows, nulls, low, high in zip(*columns, strict=True)
    )


def find_pending_positions(
    lake: Lake, backfilled: BackfilledRanges, value_range: ValueRange = _ALL_POSITIONS
) -> list[int]:
    """List the positions of events within a value range that lack their facets, in order."""
    condition = value_range.filter() & pc.field(_IS_RAW_ONLY)
    rows = scan_range(lake, LINEAGE_EVENTS, value_range).to_table(columns=["seq"], filter=condition)
    return sorted(seq for seq in rows["seq"].to_pylist() if not backfilled.covers(seq, seq))


def read_raw_events(lake: Lake, value_range: ValueRange, positions: list[int]) -> Iterator[dict[str, Any]]:
    """Read the events at these positions, a few at a time."""
    condition = value_range.filter() & pc.field("seq").isin(pa.array(positions, pa.int64()))
    scanner = scan_range(lake, LINEAGE_EVENTS, value_range).scanner(
        columns=list(EVENT_COLUMNS), filter=condition, batch_size=_ROWS_PER_BATCH, batch_readahead=0
    )
    for batch in scanner.to_batches():
        yield from iter_by_seq(pa.Table.from_batches([batch]))


def read_chunk(root: str, files: Sequence[str], chunk: Chunk) -> Iterator[dict[str, Any]]:
    """Read the raw-only events of a chunk from these files in the order received."""
    condition = ValueRange("seq", chunk.first_seq, chunk.last_seq).filter() & pc.field(_IS_RAW_ONLY)
    source = open_storage(f"{root}/{LINEAGE_EVENTS.name}").dataset(list(files), LINEAGE_EVENTS.schema)
    return iter_by_seq(source.to_table(columns=list(EVENT_COLUMNS), filter=condition))


def decode_raw_events(rows: Iterable[dict[str, Any]]) -> Iterator[tuple[Event, ReceivedEvent]]:
    """Decode rows of raw-only events; events that are rejected by this version of clew are skipped."""
    for row in rows:
        body: bytes = row["event"]
        try:
            yield (
                decode_openlineage(body),
                ReceivedEvent(row["event_id"], row["seq"], row["received_at"], row["source"], body),
            )
        except RejectedError:
            continue


def _merge_adjacent(chunks: list[Chunk]) -> list[Chunk]:
    """Merge adjacent and overlapping chunks, in order."""
    merged: list[Chunk] = []
    for chunk in sorted(chunks):
        if merged and chunk.first_seq <= merged[-1].last_seq + 1:
            merged[-1] = Chunk(merged[-1].first_seq, max(merged[-1].last_seq, chunk.last_seq))
        else:
            merged.append(chunk)
    return merged
