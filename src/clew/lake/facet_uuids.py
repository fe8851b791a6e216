"""UUIDs (version 8) of facets: digits of the event id, then the position of the facet in the event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from clew.events.identity import ID_DIGITS

_LENGTH: Final = 36
_HYPHEN, _EIGHT = b"-8"
# Offset in the UUID -> digits of the event id.
_EVENT_ID_DIGITS: Final = {0: slice(0, 8), 9: slice(8, 12), 15: slice(13, 16), 20: slice(17, 20), 24: slice(20, 26)}
_VERSION_AND_VARIANT: Final = [14, 19]
_POSITION_DIGITS: Final = slice(30, _LENGTH)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHIFTS: Final = np.arange(20, -1, -4)


class FacetUuids:
    """Builds the UUIDs of the facets of a list of events."""

    def __init__(self, event_ids: Iterable[str]) -> None:
        ids = np.frombuffer("".join(event_ids).encode(), np.uint8).reshape(-1, ID_DIGITS)
        self._prefixes = np.full((len(ids), _LENGTH), _HYPHEN, np.uint8)
        self._prefixes[:, _VERSION_AND_VARIANT] = _EIGHT
        for start, digits in _EVENT_ID_DIGITS.items():
            self._prefixes[:, start : start + digits.stop - digits.start] = ids[:, digits]

    def build(self, events: np.ndarray, positions: np.ndarray) -> pa.Array:
        """Build one UUID per facet from its event number and its position in the event."""
        uuids = self._prefixes.take(events, axis=0)
        uuids[:, _POSITION_DIGITS] = _HEX[positions[:, None] >> _SHIFTS & 0xF]
        starts = np.arange(0, uuids.size + 1, _LENGTH, dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), len(uuids), [None, pa.py_buffer(starts), pa.py_buffer(uuids)])
