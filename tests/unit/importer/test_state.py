"""Tests of the state of imports."""

from __future__ import annotations

from pathlib import Path

from clew.data_dir import DataDir
from clew.importer.marquez_database import EventPlan, ReadPosition, RowRange
from clew.importer.state import ImportState, erase_from_states, imports_folder

PLAN = EventPlan((), "2024-01-02 00:00:00+00")


def test_a_missing_or_damaged_state_is_a_new_one(tmp_path: Path) -> None:
    home = DataDir(tmp_path)
    assert ImportState.load(home, "url", "id") == ImportState("url")
    ImportState("url", events=3).save(home, "id")
    assert ImportState.load(home, "url", "id").events == 3
    assert ImportState.load(home, "url", "other").events == 0
    for path in imports_folder(home).glob("*.json"):
        path.write_bytes(b"\0")
    assert ImportState.load(home, "url", "id").events == 0


def test_the_position_does_not_pass_rows_that_may_appear_later() -> None:
    state = ImportState("url")
    state.advance(RowRange(0, "event_time", "2023-01-01", "2023-06-01", 1), PLAN, [])
    state.advance(RowRange(1, "created_at", "2024-01-01", "2024-01-01 12:00:00+00", 1), PLAN, ["a"])
    assert state.position == ReadPosition("2024-01-01 12:00:00+00", "2023-06-01")
    state.advance(RowRange(2, "created_at", "2024-01-01 12:00:00+00", "2024-01-02 00:01:00+00", 1), PLAN, ["b"])
    assert state.position == ReadPosition("2024-01-02 00:00:00+00", "2023-06-01")
    assert state.recent_ids == ["a", "b"]


def test_annotations_and_events_are_new_once() -> None:
    state = ImportState("url")
    assert state.new_annotations({"a": b"1", "b": b"1"}) == [("a", b"1"), ("b", b"1")]
    assert state.new_annotations({"a": b"2", "b": b"1"}) == [("a", b"2")]
    assert state.new_events([b"x"]) == [b"x"]
    assert state.new_events([b"x", b"y"]) == [b"y"]


def test_annotations_of_erased_entities_are_deleted(tmp_path: Path) -> None:
    home = DataDir(tmp_path)
    assert erase_from_states(home, lambda _: True) == 0
    state = ImportState("marquez", annotations={"secret": "1", "other": "2"})
    state.save(home, "marquez")
    assert erase_from_states(home, lambda key: key == "secret") == 1
    assert ImportState.load(home, "marquez", "marquez").annotations == {"other": "2"}
