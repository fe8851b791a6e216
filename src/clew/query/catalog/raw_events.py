"""Read events from the log by position, byte for byte as received."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Raw

from clew.collector.segments import Segment, decode_record, list_segments


def first_log_position(log: Path) -> int:
    """Return the first position of the log; earlier segments have expired."""
    segments = list_segments(log)
    return segments[0].base if segments else 0


def read_events(log: Path, positions: Iterable[int]) -> Iterator[Raw]:
    """Read the events at positions; expired ones are left out."""
    segments = list_segments(log)
    bases = [segment.base for segment in segments]
    for position in positions:
        number = bisect_right(bases, position) - 1
        if number >= 0 and position < segments[number].end:
            yield Raw(_event(segments[number], position))


def _event(segment: Segment, position: int) -> bytes:
    with segment.path.open("rb") as file:
        file.seek(position - segment.base)
        return decode_record(file.readline()[:-1]).body
