"""Log ranges ingested without facets; persisted, so that a repeated batch is written the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

# Half-open ranges of log offsets.
RawOnlyRanges = tuple[tuple[int, int], ...]

_RANGES_FILE = "raw_only_ranges.json"
_OPEN_END: Final = 2**63 - 1
_decode = msgspec.json.Decoder(RawOnlyRanges).decode


def is_in_ranges(seq: int, ranges: RawOnlyRanges) -> bool:
    """Return whether a position is in one of the ranges."""
    return any(start <= seq < end for start, end in ranges)


def update_ranges(checkpoint: Path, position: int, *, is_raw_only: bool) -> RawOnlyRanges:
    """Start or end a raw-only range at `position` and persist the ranges; return all ranges."""
    path = checkpoint / _RANGES_FILE
    existing = _decode(path.read_bytes()) if path.exists() else ()
    ranges = tuple((start, min(end, position)) for start, end in existing if start < position)
    if is_raw_only:
        ranges = (*ranges, (position, _OPEN_END))
    if ranges != existing:
        _write(path, ranges)
    return ranges


def ranges_after(seq: int, ranges: RawOnlyRanges) -> RawOnlyRanges:
    """Return the parts of the ranges after an event."""
    return tuple((max(start, seq + 1), end) for start, end in ranges if end > seq + 1)


def _write(path: Path, ranges: RawOnlyRanges) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(ranges))
    temporary.replace(path)
