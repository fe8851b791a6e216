"""Retention of log segments."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from clew.collector.segments import Segment, decode_record, list_segments

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


def _last_received(segment: Segment) -> datetime:
    return datetime.fromisoformat(decode_record(_last_line(segment.path)).at)


def _last_line(path: Path) -> bytes:
    with path.open("rb") as file:
        end = path.stat().st_size - 1
        start, tail = end, b""
        while start > 0 and b"\n" not in tail:
            start = max(0, end - max(_TAIL_BYTES, 2 * len(tail)))
            file.seek(start)
            tail = file.read(end - start)
    return tail.rpartition(b"\n")[2]
