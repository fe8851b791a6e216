"""The UUIDs (version 8) of facets: the id of their event, then their place in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from clew.events.identity import ID_DIGITS

_LENGTH: Final = 36
_HYPHEN, _EIGHT = b"-8"
# Which digits of the event's id stand where in the UUIDs of its facets.
_TAKEN: Final = {0: slice(0, 8), 9: slice(8, 12), 15: slice(13, 16), 20: slice(17, 20), 24: slice(20, 26)}
_VERSION_AND_VARIANT: Final = [14, 19]
_PLACE: Final = slice(30, _LENGTH)
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_SHIFTS: Final = np.arange(20, -1, -4)


class FacetUuids:
    """Those of the facets of some events, whose ids have 32 digits each."""

    def __init__(self, event_ids: Iterable[str]) -> None:
        ids = np.frombuffer("".join(event_ids).encode(), np.uint8).reshape(-1, ID_DIGITS)
        self._stems = np.full((len(ids), _LENGTH), _HYPHEN, np.uint8)
        self._stems[:, _VERSION_AND_VARIANT] = _EIGHT
        for place, part in _TAKEN.items():
            self._stems[:, place : place + part.stop - part.start] = ids[:, part]

    def of(self, events: np.ndarray, places: np.ndarray) -> pa.Array:
        """One for each facet, by the number of its event and its place in that."""
        uuids = self._stems.take(events, axis=0)
        uuids[:, _PLACE] = _HEX[places[:, None] >> _SHIFTS & 0xF]
        starts = np.arange(0, uuids.size + 1, _LENGTH, dtype=np.int32)
        return pa.Array.from_buffers(pa.string(), len(uuids), [None, pa.py_buffer(starts), pa.py_buffer(uuids)])
