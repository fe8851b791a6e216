"""Many texts, one behind the other: made into an Arrow array without a copy of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec import Raw


class Texts:
    """Texts that are known to be UTF-8; text n is `joined[starts[n]:starts[n + 1]]`."""

    def __init__(self, bodies: Sequence[bytes | memoryview | Raw]) -> None:
        self.joined = b"".join(bodies)
        self.starts = np.zeros(len(bodies) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, bodies), np.int64, len(bodies)), out=self.starts[1:])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, place: int) -> bytes:
        return self.joined[self.starts[place] : self.starts[place + 1]]

    def to_arrow(self) -> pa.Array:
        """The same as a column."""
        # Refuses more than Arrow's offsets of 32 bits can name.
        _, starts = pa.array(self.starts, pa.int32()).buffers()
        return pa.Array.from_buffers(pa.string(), len(self), [None, starts, pa.py_buffer(self.joined)])
