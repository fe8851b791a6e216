"""Tests of the batch history of a checkpoint."""

from __future__ import annotations

from pathlib import Path

from clew.pipeline.checkpoint import BatchRecord, append_batch_record, read_batch_records


def make_record(number: int) -> BatchRecord:
    return BatchRecord("app", number, 1_000, 0.5, 10, 1, 2, {"lineage_events": 10}, 400)


def test_retains_the_last_50_batches_in_order(tmp_path: Path) -> None:
    for number in range(60):
        append_batch_record(tmp_path, make_record(number))
    assert read_batch_records(tmp_path) == [make_record(number) for number in range(10, 60)]


def test_ignores_a_missing_or_corrupt_history(tmp_path: Path) -> None:
    assert read_batch_records(tmp_path) == []
    append_batch_record(tmp_path, make_record(1))
    (tmp_path / "batch_history.json").write_text("[{")
    assert read_batch_records(tmp_path) == []
    append_batch_record(tmp_path, make_record(2))
    assert read_batch_records(tmp_path) == [make_record(2)]
