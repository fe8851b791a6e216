"""The checkpoint of the streaming query: committed batches and their offsets in the log."""

from __future__ import annotations

import uuid
from pathlib import Path

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
        return max((int(path.name) for path in self.folder.glob("commits/*") if path.name.isdecimal()), default=-1)

    @property
    def committed_offset(self) -> int:
        """The log offset up to which batches are committed."""
        return self.batch_end_offset(self.last_committed_batch) or 0

    @property
    def planned_offset(self) -> int:
        """The log offset up to which batches are planned: an uncommitted batch is repeated with the same range."""
        planned = max((int(path.name) for path in self.folder.glob("offsets/*") if path.name.isdecimal()), default=-1)
        return self.batch_end_offset(planned) or 0

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
