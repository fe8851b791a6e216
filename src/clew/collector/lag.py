"""Lag of a reader behind the end of the log."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from clew.collector.segments import SegmentRange, end_position, read_lines, split_ranges

# Above this size, the number of events is extrapolated.
_MAX_SCAN_BYTES = 64 << 20
_BYTES_PER_READ = 1 << 20


class Lag(Struct, frozen=True):
    """Distance of a position from the end of the log; `events` is an estimate for a large lag."""

    position: int
    end: int
    bytes: int
    events: int
    is_estimate: bool


def measure_lag(folder: Path, position: int, *, max_scan_bytes: int = _MAX_SCAN_BYTES) -> Lag:
    """Measure the lag of a position."""
    end = end_position(folder)
    lag_bytes = max(0, end - position)
    scanned = min(lag_bytes, max_scan_bytes)
    counted = sum(
        _count_newlines(segment_range)
        for segment_range in split_ranges(folder, position, position + scanned, scanned or 1)
    )
    is_estimate = scanned < lag_bytes
    events = round(counted * lag_bytes / scanned) if is_estimate else counted
    return Lag(position, end, lag_bytes, events, is_estimate)


def next_position(folder: Path, seq: int) -> int:
    """Return the position after the event at `seq`."""
    end = end_position(folder)
    segment_ranges = split_ranges(folder, seq + 1, end, max(1, end))
    return next((start for segment_range in segment_ranges for start, _ in read_lines(segment_range)), end)


def _count_newlines(segment_range: SegmentRange) -> int:
    count = 0
    with Path(segment_range.path).open("rb") as file:
        file.seek(segment_range.start - segment_range.base)
        remaining = segment_range.end - segment_range.start
        while remaining > 0 and (chunk := file.read(min(remaining, _BYTES_PER_READ))):
            count += chunk.count(b"\n")
            remaining -= len(chunk)
    return count
