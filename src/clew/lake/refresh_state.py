"""Position up to which the derived tables contain the events of the lake."""

from __future__ import annotations

from typing import Final
from zlib import crc32

import msgspec
from deltalake import DeltaTable
from msgspec import Struct

from clew.data_dir import LakeLocation
from clew.events.facets import FacetOrder
from clew.lake.lake import Lake, file_values
from clew.lake.schemas import (
    BACKFILLS,
    DATAFRAME_EVENTS,
    DERIVED_TABLE_NAMES,
    LINEAGE_EVENTS,
    RUNTIME_EVENTS,
    STATE_TABLE_NAMES,
)
from clew.lake.storage import open_storage

_FILE: Final = "derived.json"
# Increased when state or derived tables change: they are then rebuilt.
_FORMAT: Final = 2
_SOURCES: Final = (LINEAGE_EVENTS.name, RUNTIME_EVENTS.name, DATAFRAME_EVENTS.name)


class RefreshState(Struct, frozen=True):
    """Last position of each event table, number of backfilled chunks, and facet order of a refresh."""

    positions: dict[str, int]
    backfills: int
    facet_order: FacetOrder
    events: int
    format: int = _FORMAT

    @property
    def last_position(self) -> int:
        """Last position of all event tables."""
        return max(self.positions.values())

    @classmethod
    def of(cls, lake: Lake) -> RefreshState:
        """Return the state of derived tables that contain all events of the lake."""
        # Backfills first: a listed chunk has all of its facets.
        backfills = lake.table(BACKFILLS.name)
        tables = {name: lake.table(name) for name in _SOURCES}
        return cls(
            {name: -1 if table is None else _last_position(table) for name, table in tables.items()},
            0 if backfills is None else backfills.count(),
            lake.facet_order,
            sum(table.count() for table in tables.values() if table is not None),
        )


class _Checksum(Struct):
    """Checksum of a stored state; None in files of the first versions."""

    checksum: int | None = None


def _last_position(table: DeltaTable) -> int:
    return max((position for (position,) in file_values(table, "max.seq") if position is not None), default=-1)


def read_refresh_state(lake: Lake) -> RefreshState | None:
    """Return the state of the last complete refresh; None if all derived tables must be rebuilt."""
    try:
        text = lake.storage.read(_FILE)
    except OSError:
        text = None
    if text is None or any(lake.table(name) is None for name in (*DERIVED_TABLE_NAMES, *STATE_TABLE_NAMES)):
        return None
    state = _decode(text)
    is_current = state is not None and state.format == _FORMAT and state.facet_order is lake.facet_order
    return state if is_current else None


def read_facet_order(root: LakeLocation) -> FacetOrder | None:
    """Return the facet order of the last refresh; None if it is unknown."""
    try:
        text = open_storage(root).read(_FILE)
    except OSError:
        return None
    state = None if text is None else _decode(text)
    return None if state is None else state.facet_order


def _decode(text: bytes) -> RefreshState | None:
    """Decode a stored state; None if it is damaged."""
    try:
        state = msgspec.json.decode(text, type=RefreshState)
        checksum = msgspec.json.decode(text, type=_Checksum).checksum
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    # A digit of a position may have changed.
    return state if checksum in {None, crc32(msgspec.json.encode(state))} else None


def has_underived_chunks(lake: Lake) -> bool:
    """Return whether the derived tables lack the facets of a backfilled chunk, for instance after a crash."""
    state = read_refresh_state(lake)
    return RefreshState.of(lake).backfills > (0 if state is None else state.backfills)


def write_refresh_state(lake: Lake, state: RefreshState) -> None:
    """Record a complete refresh."""
    text = msgspec.json.encode(state)
    lake.storage.replace(_FILE, b'%s,"checksum":%d}' % (text[:-1], crc32(text)))


def reset_refresh_state(lake: Lake) -> None:
    """Make the next refresh rebuild all derived tables."""
    lake.storage.remove(_FILE)


def is_refreshed(lake: Lake) -> bool:
    """Return whether the derived tables contain all events of the lake."""
    return read_refresh_state(lake) == RefreshState.of(lake)
