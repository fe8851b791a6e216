"""Raw-only events and backfilled ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import or_
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from clew.events.decoding import RejectedError
from clew.events.openlineage import Event, decode_openlineage
from clew.lake.event_rows import ReceivedEvent
from clew.lake.lake import Lake, file_values
from clew.lake.scan import ValueRange, iter_by_seq, scan_range
from clew.lake.schemas import BACKFILLS, LINEAGE_EVENTS
from clew.lake.storage import open_storage

EVENT_COLUMNS = ("event_id", "seq", "received_at", "source", "event")
_IS_RAW_ONLY = "is_raw_only"
_ALL_POSITIONS = ValueRange("seq", 0, 2**63 - 1)
# An event may be 10 MB.
_ROWS_PER_BATCH = 16
_KEY_COLUMNS = ("run_uuid", "job_namespace", "job_name", "dataset_namespace", "dataset_name")
# Raw-only events that one query parses at most.
MAX_RAW_EVENTS: Final = 1_000
MAX_RAW_BYTES: Final = 64 << 20
_EVENTS_PER_SCAN = 64


class Chunk(NamedTuple):
    """A range of log positions, inclusive: its raw-only events are backfilled together."""

    first_seq: int
    last_seq: int


Name = tuple[str, str]


class EventSelection(NamedTuple):
    """Events of any of these runs, jobs and DatasetEvents; of a declaring job, only its JobEvents."""

    runs: frozenset[str] = frozenset()
    jobs: frozenset[Name] = frozenset()
    datasets: frozenset[Name] = frozenset()
    declaring_jobs: frozenset[Name] = frozenset()

    def condition(self) -> pc.Expression:
        """Return a condition on the columns of an event that includes all events of the selection."""
        jobs = {name for _, name in self.jobs | self.declaring_jobs}
        values = ("run_uuid", self.runs), ("job_name", jobs), ("dataset_name", {name for _, name in self.datasets})
        used = [pc.field(column).isin(sorted(names)) for column, names in values if names]
        return reduce(or_, used) if used else pc.scalar(value=False)

    def contains(self, row: dict[str, Any]) -> bool:
        """Return whether an event belongs to the selection."""
        run, job = row["run_uuid"], (row["job_namespace"], row["job_name"])
        return (
            run in self.runs
            or job in self.jobs
            or (row["dataset_namespace"], row["dataset_name"]) in self.datasets
            or (run is None and job in self.declaring_jobs)
        )

    def value_range(self) -> ValueRange:
        """Return the range of values by which files are skipped."""
        is_by_run = self.runs and not (self.jobs or self.datasets or self.declaring_jobs)
        return ValueRange("run_uuid", min(self.runs), max(self.runs)) if is_by_run else _ALL_POSITIONS


NO_EVENTS: Final = EventSelection()


class PendingEvents(NamedTuple):
    """Decoded raw-only events, in the order received; not complete if there are more than a query may parse."""

    events: list[tuple[Event, ReceivedEvent]]
    is_complete: bool


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


def read_backfilled_ranges(lake: Lake, last_number: int | None = None) -> BackfilledRanges:
    """Read the backfilled ranges, of chunks up to a number.

    Call before reading facets, so that a listed chunk has all of its facets.
    """
    return BackfilledRanges(read_chunks(lake, last_number))


def read_chunks(lake: Lake, last_number: int | None = None) -> list[Chunk]:
    """Read the backfilled chunks, ordered by number, up to a number."""
    table = lake.table(BACKFILLS.name)
    if table is None:
        return []
    columns = ["number", *Chunk._fields]
    rows = table.to_pyarrow_table(columns=columns, filesystem=lake.storage.filesystem(BACKFILLS.name))
    return [
        Chunk(row["first_seq"], row["last_seq"])
        for row in rows.sort_by("number").to_pylist()
        if last_number is None or row["number"] <= last_number
    ]


def has_pending_backfill(lake: Lake, backfilled: BackfilledRanges) -> bool:
    """Return whether an event may lack its facets, by file statistics only."""
    table = lake.table(LINEAGE_EVENTS.name)
    if table is None or _IS_RAW_ONLY not in {field.name for field in table.schema().fields}:
        return False
    statistics = file_values(table, "num_records", f"null_count.{_IS_RAW_ONLY}", "min.seq", "max.seq")
    return any(
        rows != nulls and not (low is not None and high is not None and backfilled.covers(low, high))
        for rows, nulls, low, high in statistics
    )


def find_pending_positions(lake: Lake, backfilled: BackfilledRanges) -> list[int]:
    """List the positions of events that lack their facets, in order."""
    events = scan_range(lake, LINEAGE_EVENTS, _ALL_POSITIONS)
    positions = events.to_table(columns=["seq"], filter=pc.field(_IS_RAW_ONLY))["seq"].to_pylist()
    return sorted(seq for seq in positions if not backfilled.covers(seq, seq))


def read_pending_events(
    lake: Lake, backfilled: BackfilledRanges, selection: EventSelection, max_bytes: int | None = None
) -> PendingEvents:
    """Decode the newest events of a selection that lack their facets, up to a number and a size."""
    value_range = selection.value_range()
    condition = pc.field(_IS_RAW_ONLY) & selection.condition()
    rows = scan_range(lake, LINEAGE_EVENTS, value_range).to_table(columns=["seq", *_KEY_COLUMNS], filter=condition)
    selected = (row["seq"] for row in rows.to_pylist() if selection.contains(row))
    positions = sorted((seq for seq in selected if not backfilled.covers(seq, seq)), reverse=True)
    events: list[tuple[Event, ReceivedEvent]] = []
    size = 0
    for start in range(0, min(len(positions), MAX_RAW_EVENTS), _EVENTS_PER_SCAN):
        part = positions[start : min(start + _EVENTS_PER_SCAN, MAX_RAW_EVENTS)]
        for event, received in decode_raw_events(read_raw_events(lake, ValueRange("seq", part[-1], part[0]), part)):
            size += len(received.body)
            if size > (MAX_RAW_BYTES if max_bytes is None else max_bytes):
                return PendingEvents(_sorted(events), is_complete=False)
            events.append((event, received))
    return PendingEvents(_sorted(events), is_complete=len(positions) <= MAX_RAW_EVENTS)


def _sorted(events: list[tuple[Event, ReceivedEvent]]) -> list[tuple[Event, ReceivedEvent]]:
    return sorted(events, key=lambda pair: pair[1].seq)


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
