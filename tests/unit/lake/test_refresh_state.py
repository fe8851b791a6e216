"""Tests of the refresh state: when derived tables are up to date, and when they must be rebuilt."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.lake import mark_refreshed

from clew.events.facets import FacetOrder
from clew.lake.compaction import compact_tables
from clew.lake.data_files import FileWriter
from clew.lake.lake import BatchId, Lake
from clew.lake.refresh_state import (
    RefreshState,
    has_underived_chunks,
    is_refreshed,
    read_refresh_state,
    reset_refresh_state,
)
from clew.lake.schemas import BACKFILLS, RUNTIME_EVENTS, Table


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a lake with one event."""
    lake = Lake(tmp_path / "lake")
    lake.create_or_validate()
    append(lake, RUNTIME_EVENTS, 0, seq=7)
    return lake


def append(lake: Lake, table: Table, number: int, **values: int) -> None:
    row = {"event_id": "a", "finished_at": datetime.now(UTC), **values}
    rows = pa.RecordBatch.from_pylist([row], schema=table.schema)
    writer = FileWriter(str(lake.root), {})
    lake.append(table.name, table.schema, [*writer.add({table.name: rows}), *writer.flush()], BatchId("app", number))


def test_is_refreshed_until_events_are_added(lake: Lake) -> None:
    assert not is_refreshed(lake)
    mark_refreshed(lake)
    assert is_refreshed(lake)
    append(lake, RUNTIME_EVENTS, 1, seq=9)
    assert not is_refreshed(lake)
    before = read_refresh_state(lake)
    assert before is not None
    assert (before.positions["runtime_events"], RefreshState.of(lake).positions["runtime_events"]) == (7, 9)


def test_is_refreshed_after_compaction(lake: Lake) -> None:
    append(lake, RUNTIME_EVENTS, 1, seq=9)
    mark_refreshed(lake)
    assert compact_tables(lake)["runtime_events"] == (2, 1)
    assert is_refreshed(lake)


def test_a_changed_byte_rebuilds_the_derived_tables(lake: Lake) -> None:
    mark_refreshed(lake)
    state, path = read_refresh_state(lake), lake.root / "derived.json"
    assert isinstance(path, Path)
    text = path.read_bytes()
    for position in range(len(text)):
        path.write_bytes(text[:position] + bytes([text[position] ^ 1 << position % 7]) + text[position + 1 :])
        # Without the name of the checksum, as in files of the first versions, the state is used.
        assert read_refresh_state(lake) in (None, state), position


def test_is_stale_after_a_backfill(lake: Lake) -> None:
    mark_refreshed(lake)
    append(lake, BACKFILLS, 1, first_seq=0, last_seq=7, events=1)
    assert not is_refreshed(lake)
    assert read_refresh_state(lake) is not None


def test_finds_backfilled_chunks_that_are_not_derived(lake: Lake) -> None:
    assert not has_underived_chunks(lake)
    append(lake, BACKFILLS, 1, first_seq=0, last_seq=7, events=1)
    assert has_underived_chunks(lake)
    mark_refreshed(lake)
    assert not has_underived_chunks(lake)
    append(lake, BACKFILLS, 2, first_seq=8, last_seq=9, events=1)
    assert has_underived_chunks(lake)
    mark_refreshed(lake)
    # A rebuild was interrupted.
    reset_refresh_state(lake)
    assert has_underived_chunks(lake)


def test_must_be_rebuilt_after_a_change_of_facet_order(lake: Lake) -> None:
    mark_refreshed(lake)
    lake.set_facet_order(FacetOrder.EVENT_TIME)
    assert read_refresh_state(lake) is None


def test_must_be_rebuilt_after_a_reset_or_without_a_table(lake: Lake) -> None:
    mark_refreshed(lake, skip="state_runs")
    assert read_refresh_state(lake) is None
    mark_refreshed(lake)
    reset_refresh_state(lake)
    assert read_refresh_state(lake) is None


def test_must_be_rebuilt_if_the_state_is_not_valid(lake: Lake) -> None:
    mark_refreshed(lake)
    lake.storage.replace("derived.json", b'{"positions": 1}')
    assert read_refresh_state(lake) is None
