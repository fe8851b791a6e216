"""Events as they were received, by their positions in the log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Raw

from clew.collector.segments import Segment, decode_line, segments


def first_position(log: Path) -> int:
    """Where the log begins by now: what was before has expired."""
    found = segments(log)
    return found[0].base if found else 0


def events_at(log: Path, positions: Iterable[int]) -> Iterator[Raw]:
    """The events at these positions, byte for byte, without those that are no longer there."""
    found = segments(log)
    bases = [segment.base for segment in found]
    for position in positions:
        place = bisect_right(bases, position) - 1
        if place >= 0 and position < found[place].end:
            yield Raw(_event(found[place], position))


def _event(segment: Segment, position: int) -> bytes:
    with segment.path.open("rb") as file:
        file.seek(position - segment.base)
        return decode_line(file.readline()[:-1]).body
