"""A buffer of UTF-8 strings that becomes an Arrow array without copying each string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from msgspec import Raw

_MAX_BYTES: Final = np.iinfo(np.int32).max


class StringBuffer:
    """Strings known to be UTF-8; string n is `data[offsets[n]:offsets[n + 1]]`."""

    def __init__(self, bodies: Sequence[bytes | memoryview | Raw]) -> None:
        self.data = b"".join(bodies)
        if len(self.data) > _MAX_BYTES:
            message = f"{len(self.data):,} bytes of text exceed the limit of an Arrow array."
            raise ValueError(message)
        self.offsets = np.zeros(len(bodies) + 1, np.int32)
        np.cumsum(np.fromiter(map(len, bodies), np.int32, len(bodies)), out=self.offsets[1:])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> bytes:
        return self.data[self.offsets[index] : self.offsets[index + 1]]

    def to_arrow(self) -> pa.Array:
        """Return the strings as an Arrow array."""
        buffers = [None, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.string(), len(self), buffers)
