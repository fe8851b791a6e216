"""Dead letters given a second chance: what can be read by now goes into the log once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from clew.collector.log import LogWriter, Received, stored_body
from clew.collector.segments import identity_of, ranges, read_lines
from clew.events.identity import event_id
from clew.events.received import decode
from clew.events.rejection import RejectedError
from clew.events.stream import Stream
from clew.home import Home
from clew.index.reader import IndexReader
from clew.lake.delta import Lake
from clew.lake.soundness import require_sound_lake
from clew.lake.tables import REJECTED_EVENTS

# An event may be 10 MB: dead letters are looked at a few at a time.
_ROWS_PER_BATCH = 64
_BYTES_PER_RANGE = 16 << 20
_BEFORE_ALL = -1


@dataclass
class Replayed:
    """What became of the dead letters that were looked at."""

    replayed: int = 0
    still_rejected: int = 0
    taken_already: int = 0
    waiting_already: int = 0


def replay(home: Home, reason: str | None = None) -> Replayed:
    """Append to the log what was rejected once and can be read now: the next run takes it in."""
    require_sound_lake(home.lake)
    done = Replayed()
    with LogWriter(home.log) as log, IndexReader(home.index) as index:
        # Asked first: what is taken in from here on is found either beyond this position or in the index.
        waiting = _waiting(home, log.position, int(index.meta("indexed_seq") or _BEFORE_ALL))
        for row in _dead_letters(Lake(home.lake), reason):
            identity = event_id(stored_body(row["body"]))
            if index.has_event(identity):
                done.taken_already += 1
            elif identity in waiting:
                done.waiting_already += 1
            elif _is_readable(row):
                event = Received(_stream(row["stream"]), row["source"], row["body"])
                done.replayed += log.append_again([event])
                waiting.add(identity)
            else:
                done.still_rejected += 1
    return done


def _waiting(home: Home, end: int, last: int) -> set[str]:
    """The events that stand in the log after the one at `last`."""
    parts = ranges(home.log, last + 1, end, _BYTES_PER_RANGE)
    return {identity_of(text) for part in parts for _, text in read_lines(part)}


def _dead_letters(lake: Lake, reason: str | None) -> Iterator[dict[str, Any]]:
    table = lake.table(REJECTED_EVENTS.name)
    if table is not None:
        wanted = None if reason is None else pc.field("reason") == reason
        rows = table.to_pyarrow_dataset(filesystem=lake.storage.filesystem(REJECTED_EVENTS.name))
        for batch in rows.to_batches(filter=wanted, batch_size=_ROWS_PER_BATCH):
            yield from batch.to_pylist()


def _is_readable(row: dict[str, Any]) -> bool:
    try:
        decode(row["stream"], row["body"])
    except RejectedError:
        return False
    return True


def _stream(name: str) -> Stream:
    """The stream of that name; a line written by hand may name another, and then counts as OpenLineage."""
    return next((stream for stream in Stream if stream == name), Stream.OPENLINEAGE)
