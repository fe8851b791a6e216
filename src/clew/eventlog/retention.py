"""Delete old log segments, overwrite single lines; lag of the consumers."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from clew.eventlog.segments import (
    Segment,
    SegmentRange,
    end_position,
    list_segments,
    read_lines,
    received_at,
    split_ranges,
)

_TAIL_BYTES = 1 << 16


def drop_segments(folder: Path, cutoff: datetime, ingested_position: int) -> tuple[int, int]:
    """Remove ingested segments received before `cutoff`; return their number and bytes.

    The last segment stays: its name is needed for the next position.
    """
    count = size = 0
    for segment in list_segments(folder)[:-1]:
        # In order, without gaps.
        if segment.end > ingested_position or _last_received(segment) >= cutoff:
            break
        segment.path.unlink()
        count, size = count + 1, size + segment.end - segment.base
    return count, size


def overwrite_lines(path: Path, replace: Callable[[int, bytes], bytes]) -> int:
    """Overwrite the lines of a file that `replace` changes, in place; return their number.

    It is called with the offset and the text of each complete line, and returns a text of the same size: positions in
    the file remain valid, and the file may be appended to meanwhile.
    """
    status, count, offset = path.stat(), 0, 0
    with path.open("rb+") as file:
        for line in file:
            text = line.removesuffix(b"\n")
            replaced = text if text is line or text.isspace() else replace(offset, text)
            if replaced != text:
                _write_at(file.fileno(), replaced, offset)
                count += 1
            offset += len(line)
        os.fsync(file.fileno())
    if count:
        # Retention goes by this time if the last line is overwritten.
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return count


def _write_at(descriptor: int, text: bytes, offset: int) -> None:
    rest = memoryview(text)
    while rest:
        written = os.pwrite(descriptor, rest, offset)
        rest, offset = rest[written:], offset + written


def _last_received(segment: Segment) -> datetime:
    last = received_at(_last_line(segment.path))
    return datetime.fromtimestamp(segment.path.stat().st_mtime, UTC) if last is None else last


def _last_line(path: Path) -> bytes:
    with path.open("rb") as file:
        end = path.stat().st_size - 1
        start, tail = end, b""
        while start > 0 and b"\n" not in tail:
            start = max(0, end - max(_TAIL_BYTES, 2 * len(tail)))
            file.seek(start)
            tail = file.read(end - start)
    return tail.rpartition(b"\n")[2]


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
