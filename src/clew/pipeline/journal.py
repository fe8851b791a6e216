"""How the last batches went, in a small file beside the checkpoint. No Spark here: a status reads it in a moment."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

_FILE = "batches.json"
_KEPT = 50


class TakenBatch(Struct, frozen=True):
    """A batch as it was taken in: how long until it was in the lake, and what it added.

    `position` is how far the log was read with it.
    """

    app: str
    number: int
    at_ms: int
    seconds: float
    events: int
    rejected: int
    repeated: int
    rows: dict[str, int]
    position: int


_decode_batches = msgspec.json.Decoder(list[TakenBatch]).decode


def note(checkpoint: Path, batch: TakenBatch) -> None:
    """Add a batch, and forget the oldest."""
    path = checkpoint / _FILE
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(msgspec.json.encode([*noted(checkpoint), batch][-_KEPT:]))
    temporary.replace(path)


def noted(checkpoint: Path) -> list[TakenBatch]:
    """The last batches, the newest last."""
    try:
        return _decode_batches((checkpoint / _FILE).read_bytes())
    except (FileNotFoundError, msgspec.DecodeError):
        # Only what a status shows is lost.
        return []
