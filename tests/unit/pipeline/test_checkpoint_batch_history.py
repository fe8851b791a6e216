"""The last batches are remembered, and no more than that."""

from __future__ import annotations

from pathlib import Path

from clew.pipeline.checkpoint import BatchRecord, append_batch_record, read_batch_records


def batch(number: int) -> BatchRecord:
    return BatchRecord("app", number, 1_000, 0.5, 10, 1, 2, {"lineage_events": 10}, 400)


def test_batches_are_remembered_in_order_up_to_a_number(tmp_path: Path) -> None:
    for number in range(60):
        append_batch_record(tmp_path, batch(number))
    assert read_batch_records(tmp_path) == [batch(number) for number in range(10, 60)]


def test_a_lost_or_broken_note_is_no_fault(tmp_path: Path) -> None:
    assert read_batch_records(tmp_path) == []
    append_batch_record(tmp_path, batch(1))
    (tmp_path / "batch_history.json").write_text("[{")
    assert read_batch_records(tmp_path) == []
    append_batch_record(tmp_path, batch(2))
    assert read_batch_records(tmp_path) == [batch(2)]
