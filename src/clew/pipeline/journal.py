"""History of the last batches in a JSON file next to the checkpoint, readable without Spark."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

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


_decode_batches = msgspec.json.Decoder(list[BatchRecord]).decode


def append_batch_record(checkpoint: Path, batch: BatchRecord) -> None:
    """Append a batch and drop the oldest."""
    path = checkpoint / _HISTORY_FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode([*read_batch_records(checkpoint), batch][-_MAX_BATCHES:]))
    temporary.replace(path)


def read_batch_records(checkpoint: Path) -> list[BatchRecord]:
    """Read the last batches, newest last."""
    try:
        return _decode_batches((checkpoint / _HISTORY_FILE).read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        # Only used for display.
        return []
