"""Steps of a refresh, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.events.facets import FacetOrder
from clew.lake.lake import BatchId, Lake
from clew.lake.refresh_state import RefreshState
from clew.lake.scan import StoredEvent
from clew.lake.schemas import BACKFILLS
from clew.pipeline.derive import refresh
from clew.pipeline.derive.extract import NewEvents
from clew.pipeline.derive.scope import write_rows

STEP_BYTES = 100


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(refresh, "_STEP_BYTES", STEP_BYTES)
    lake = Lake(tmp_path)
    lake.create_or_validate()
    return lake


def state(lineage: int, runtime: int, backfills: int = 0) -> RefreshState:
    positions = {"lineage_events": lineage, "runtime_events": runtime, "dataframe_events": -1}
    return RefreshState(positions, backfills, FacetOrder.RECEIVED, 0)


def stored(table: str, seq: int, *, is_raw_only: bool = False) -> StoredEvent:
    return StoredEvent(table, "id", seq, None, is_raw_only)


def count_steps(steps: list[tuple[NewEvents, RefreshState]], event: StoredEvent) -> int:
    return sum(new.contains(event) for new, _ in steps)


@pytest.mark.parametrize(("last", "count"), [(60, 1), (150, 1), (151, 2), (350, 3), (351, 4)])
def test_each_new_event_is_in_one_step(last: int, count: int, lake: Lake) -> None:
    # The runtime events of a batch are committed before its lineage events.
    before, after = state(30, 50), state(last, last)
    steps = list(refresh._plan_steps(lake, before, after))
    assert len(steps) == count
    assert steps[-1][1].positions == after.positions
    for seq in range(-1, last + 50):
        assert count_steps(steps, stored("lineage_events", seq)) == (30 < seq <= last)
        assert count_steps(steps, stored("runtime_events", seq)) == (50 < seq <= last)


def test_states_of_steps_resume_where_the_step_ended(lake: Lake) -> None:
    before, after = state(0, -1), state(250, 120)
    states = [step_state for _, step_state in refresh._plan_steps(lake, before, after)]
    assert [list(step.positions.values()) for step in states] == [[100, 100, -1], [200, 120, -1], [250, 120, -1]]
    resumed = list(refresh._plan_steps(lake, states[0], after))
    assert [step for _, step in resumed] == states[1:]


def test_each_backfilled_chunk_is_a_step(lake: Lake) -> None:
    chunks = [{"number": number, "first_seq": 10 * number, "last_seq": 10 * number + 9} for number in range(3)]
    rows = BACKFILLS.schema.empty_table().from_pylist(
        [{**chunk, "events": 1, "finished_at": None} for chunk in chunks], schema=BACKFILLS.schema
    )
    files = write_rows(str(lake.root), BACKFILLS.name, rows)
    lake.append(BACKFILLS.name, BACKFILLS.schema, files, BatchId("test", 0))
    steps = list(refresh._plan_steps(lake, state(29, -1, backfills=1), state(29, -1, backfills=3)))
    assert [step_state.backfills for _, step_state in steps] == [2, 3]
    for seq in range(40):
        raw_only, complete = (stored("lineage_events", seq, is_raw_only=flag) for flag in (True, False))
        assert count_steps(steps, raw_only) == (10 <= seq < 30)
        assert count_steps(steps, complete) == 0
