"""Lakes of tests."""

from __future__ import annotations

from clew.lake.lake import BatchId, Lake
from clew.lake.refresh_state import RefreshState, write_refresh_state
from clew.lake.schemas import DERIVED_TABLE_NAMES, RUN_FACETS, STATE_TABLE_NAMES


def mark_refreshed(lake: Lake, skip: str | None = None) -> None:
    """Create the tables of a refresh without rows, and record it as complete."""
    for name in (*DERIVED_TABLE_NAMES, *STATE_TABLE_NAMES):
        if name != skip:
            lake.replace(name, RUN_FACETS.schema, [], BatchId("derived", 0))
    write_refresh_state(lake, RefreshState.of(lake))
