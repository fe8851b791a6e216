"""Replay of rejected events: those that can be decoded now are appended to the log again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from clew.collector.log import IncomingEvent, LogWriter, normalize_body
from clew.collector.segments import read_lines, record_event_id, split_ranges
from clew.events.identity import event_id
from clew.events.received import decode_event
from clew.events.rejection import RejectedError
from clew.events.stream import Stream
from clew.home import DataDir
from clew.index.reader import IndexReader
from clew.lake.delta import Lake
from clew.lake.soundness import check_integrity
from clew.lake.tables import REJECTED_EVENTS

# An event may be 10 MB.
_ROWS_PER_BATCH = 64
_BYTES_PER_RANGE = 16 << 20
_NO_POSITION = -1


@dataclass
class ReplayStats:
    """Counters of a replay."""

    replayed: int = 0
    still_rejected: int = 0
    already_ingested: int = 0
    already_queued: int = 0


def replay_rejected_events(home: DataDir, reason: str | None = None) -> ReplayStats:
    """Append rejected events that can be decoded now to the log; the next run ingests them."""
    check_integrity(home.lake)
    stats = ReplayStats()
    with LogWriter(home.log) as log, IndexReader(home.index) as index:
        # Read first: an event ingested from here on is either after this position or in the index.
        queued = _queued_event_ids(home, log.position, int(index.meta("indexed_seq") or _NO_POSITION))
        for row in _rejected_rows(Lake(home.lake), reason):
            identity = event_id(normalize_body(row["body"]))
            if index.has_event(identity):
                stats.already_ingested += 1
            elif identity in queued:
                stats.already_queued += 1
            elif _can_decode(row):
                event = IncomingEvent(_stream(row["stream"]), row["source"], row["body"])
                stats.replayed += log.append_duplicates([event])
                queued.add(identity)
            else:
                stats.still_rejected += 1
    return stats


def _queued_event_ids(home: DataDir, end: int, last: int) -> set[str]:
    """Return the ids of the events in the log after position `last`."""
    parts = split_ranges(home.log, last + 1, end, _BYTES_PER_RANGE)
    return {record_event_id(text) for part in parts for _, text in read_lines(part)}


def _rejected_rows(lake: Lake, reason: str | None) -> Iterator[dict[str, Any]]:
    table = lake.table(REJECTED_EVENTS.name)
    if table is not None:
        condition = None if reason is None else pc.field("reason") == reason
        rows = table.to_pyarrow_dataset(filesystem=lake.storage.filesystem(REJECTED_EVENTS.name))
        for batch in rows.to_batches(filter=condition, batch_size=_ROWS_PER_BATCH):
            yield from batch.to_pylist()


def _can_decode(row: dict[str, Any]) -> bool:
    try:
        decode_event(row["stream"], row["body"])
    except RejectedError:
        return False
    return True


def _stream(name: str) -> Stream:
    """Return the stream of that name; OpenLineage if it is unknown."""
    return next((stream for stream in Stream if stream == name), Stream.OPENLINEAGE)
