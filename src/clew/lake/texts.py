"""Many texts, one behind the other: made into an Arrow array without a copy of each."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate

import pyarrow as pa
from msgspec import Raw


class Texts:
    """Texts that are known to be UTF-8; text n is `joined[starts[n]:starts[n + 1]]`."""

    def __init__(self, bodies: Sequence[bytes | memoryview | Raw]) -> None:
        self.joined = b"".join(bodies)
        self.starts = array("i", accumulate(map(len, bodies), initial=0))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, place: int) -> bytes:
        return self.joined[self.starts[place] : self.starts[place + 1]]

    def to_arrow(self) -> pa.Array:
        """The same as a column."""
        return pa.Array.from_buffers(
            pa.string(), len(self), [None, pa.py_buffer(self.starts), pa.py_buffer(self.joined)]
        )
