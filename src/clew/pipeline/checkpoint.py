"""Checkpoint: Spark offsets, batch history, raw-only ranges."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

NO_BATCH = -1


class _Offset(Struct):
    position: int


_decode_offset = msgspec.json.Decoder(_Offset).decode


class Checkpoint:
    """The checkpoint folder of the streaming query and its application id."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.folder = folder / "log"

    @property
    def app_id(self) -> str:
        """Delta application id of this checkpoint: a new checkpoint numbers batches from 0 and needs a new id."""
        path = self.root / "app"
        if not path.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            path.write_text(f"clew-{uuid.uuid4()}")
        return path.read_text().strip()

    @property
    def last_committed_batch(self) -> int:
        """The number of the last committed batch."""
        return self._last_number("commits")

    @property
    def committed_offset(self) -> int:
        """The log offset up to which batches are committed."""
        return self.batch_end_offset(self.last_committed_batch) or 0

    @property
    def planned_offset(self) -> int:
        """The log offset up to which batches are planned: an uncommitted batch is repeated with the same range."""
        return self.batch_end_offset(self._last_number("offsets")) or 0

    def _last_number(self, folder: str) -> int:
        numbers = (int(path.name) for path in self.folder.glob(f"{folder}/*") if path.name.isdecimal())
        return max(numbers, default=NO_BATCH)

    def batch_end_offset(self, batch: int) -> int | None:
        """Return the end offset of a batch; None if Spark has deleted it."""
        if batch == NO_BATCH:
            return 0
        try:
            # Spark's offset file: a version, metadata, then one line per source.
            last_line = (self.folder / "offsets" / str(batch)).read_bytes().splitlines()[-1]
            return _decode_offset(last_line).position
        except (OSError, IndexError, msgspec.DecodeError):
            return None


_HISTORY_FILE = "batch_history.json"
_MAX_BATCHES = 50


class BatchRecord(Struct, frozen=True):
    """An ingested batch: its duration until the commit, its counts, and its end offset in the log."""

    app_id: str
    number: int
    committed_at_ms: int
    seconds: float
    events: int
    rejected: int
    duplicates: int
    rows: dict[str, int]
    end_offset: int
    corrupt_records: int = 0


_decode_batches = msgspec.json.Decoder(list[BatchRecord]).decode


def append_batch_record(checkpoint: Path, batch: BatchRecord) -> None:
    """Append a batch and drop the oldest."""
    _write(checkpoint / _HISTORY_FILE, [*read_batch_records(checkpoint), batch][-_MAX_BATCHES:])


def read_batch_records(checkpoint: Path) -> list[BatchRecord]:
    """Read the last batches, newest last."""
    try:
        return _decode_batches((checkpoint / _HISTORY_FILE).read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        # Only used for display.
        return []


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


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode(value))
    temporary.replace(path)
