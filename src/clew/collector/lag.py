"""How much of the log is still to be taken in."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from clew.collector.segments import Range, end_position, ranges, read_lines

# A look must stay quick: beyond this much the rest is guessed from what was counted.
_COUNTED_BYTES = 64 << 20
_BYTES_PER_READ = 1 << 20


class Lag(Struct, frozen=True):
    """What stands between a position and the end of the log; `events` is a guess where much is waiting."""

    position: int
    end: int
    bytes: int
    events: int
    is_estimate: bool


def lag_behind(folder: Path, position: int, *, counted_bytes: int = _COUNTED_BYTES) -> Lag:
    """Measure what the log holds beyond a position."""
    end = end_position(folder)
    waiting = max(0, end - position)
    looked_at = min(waiting, counted_bytes)
    counted = sum(_line_breaks(part) for part in ranges(folder, position, position + looked_at, looked_at or 1))
    is_estimate = looked_at < waiting
    events = round(counted * waiting / looked_at) if is_estimate else counted
    return Lag(position, end, waiting, events, is_estimate)


def next_line(folder: Path, seq: int) -> int:
    """The position after the event at `seq`."""
    end = end_position(folder)
    parts = ranges(folder, seq + 1, end, max(1, end))
    return next((start for part in parts for start, _ in read_lines(part)), end)


def _line_breaks(part: Range) -> int:
    found = 0
    with Path(part.path).open("rb") as file:
        file.seek(part.start - part.base)
        left = part.end - part.start
        while left > 0 and (text := file.read(min(left, _BYTES_PER_READ))):
            found += text.count(b"\n")
            left -= len(text)
    return found
