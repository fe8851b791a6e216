"""Many texts, one behind the other: made into an Arrow array without a copy of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec import Raw

_MOST_BYTES: Final = np.iinfo(np.int32).max


class Texts:
    """Texts that are known to be UTF-8; text n is `joined[starts[n]:starts[n + 1]]`."""

    def __init__(self, bodies: Sequence[bytes | memoryview | Raw]) -> None:
        self.joined = b"".join(bodies)
        if len(self.joined) > _MOST_BYTES:
            message = f"{len(self.joined):,} bytes of text are more than one Arrow array holds."
            raise ValueError(message)
        self.starts = np.zeros(len(bodies) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, bodies), np.int32, len(bodies)), out=self.starts[1:])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, place: int) -> bytes:
        return self.joined[self.starts[place] : self.starts[place + 1]]

    def to_arrow(self) -> pa.Array:
        """The same as a column."""
        buffers = [None, pa.py_buffer(self.starts), pa.py_buffer(self.joined)]
        return pa.Array.from_buffers(pa.string(), len(self), buffers)
