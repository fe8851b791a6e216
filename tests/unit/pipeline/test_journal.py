"""The last batches are remembered, and no more than that."""

from __future__ import annotations

from pathlib import Path

from clew.pipeline.journal import TakenBatch, note, noted


def batch(number: int) -> TakenBatch:
    return TakenBatch("app", number, 1_000, 0.5, 10, 1, 2, {"lineage_events": 10}, 400)


def test_batches_are_remembered_in_order_up_to_a_number(tmp_path: Path) -> None:
    for number in range(60):
        note(tmp_path, batch(number))
    assert noted(tmp_path) == [batch(number) for number in range(10, 60)]


def test_a_lost_or_broken_note_is_no_fault(tmp_path: Path) -> None:
    assert noted(tmp_path) == []
    note(tmp_path, batch(1))
    (tmp_path / "batches.json").write_text("[{")
    assert noted(tmp_path) == []
    note(tmp_path, batch(2))
    assert noted(tmp_path) == [batch(2)]
