"""What Spark has noted of the batches that are done: where each ended in the log."""

from __future__ import annotations

import uuid
from pathlib import Path

import msgspec
from msgspec import Struct

NONE_DONE = -1


class _Offset(Struct):
    position: int


_decode_offset = msgspec.json.Decoder(_Offset).decode


class Checkpoint:
    """The folder that a streaming query keeps, and the name that its batches are numbered under."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        self.folder = folder / "log"

    @property
    def app(self) -> str:
        """The name under which batches are numbered: a new checkpoint counts from 0 again, so it needs a new one."""
        path = self.root / "app"
        if not path.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            path.write_text(f"clew-{uuid.uuid4()}")
        return path.read_text().strip()

    @property
    def last_done(self) -> int:
        """The number of the last batch that is done."""
        return max((int(path.name) for path in self.folder.glob("commits/*") if path.name.isdecimal()), default=-1)

    @property
    def position(self) -> int:
        """How far the log was read by the batches that are done."""
        return self.end_of(self.last_done) or 0

    @property
    def begun_position(self) -> int:
        """How far the log is read by the last batch that was begun: if it was not done, it comes again as it was."""
        begun = max((int(path.name) for path in self.folder.glob("offsets/*") if path.name.isdecimal()), default=-1)
        return self.end_of(begun) or 0

    def end_of(self, batch: int) -> int | None:
        """Where a batch ended; None if Spark no longer remembers."""
        if batch == NONE_DONE:
            return 0
        try:
            # Spark's file of offsets: a version, its own notes, then one line per source.
            last_line = (self.folder / "offsets" / str(batch)).read_bytes().splitlines()[-1]
            return _decode_offset(last_line).position
        except (OSError, IndexError, msgspec.DecodeError):
            return None
