"""Tests of the raw-only ranges of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.pipeline.checkpoint import Checkpoint, RawOnlyRanges, is_in_ranges, ranges_after, update_ranges

NO_END = 2**63 - 1


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([(0, False)], ()),
        ([(0, True)], ((0, NO_END),)),
        ([(0, True), (0, True)], ((0, NO_END),)),
        ([(0, True), (50, True)], ((0, 50), (50, NO_END))),
        ([(0, True), (50, False)], ((0, 50),)),
        ([(0, True), (50, False), (80, True)], ((0, 50), (80, NO_END))),
        ([(10, False), (20, True), (20, False)], ()),
        ([(40, True), (0, False)], ()),
    ],
)
def test_raw_only_applies_from_its_position_on(
    choices: list[tuple[int, bool]], expected: RawOnlyRanges, tmp_path: Path
) -> None:
    ranges: RawOnlyRanges = ()
    for position, is_raw_only in choices:
        ranges = update_ranges(tmp_path / "checkpoint", position, is_raw_only=is_raw_only)
    assert ranges == expected
    # A later call without raw-only returns the ranges before its position.
    assert update_ranges(tmp_path / "checkpoint", NO_END, is_raw_only=False) == expected


@pytest.mark.parametrize(("seq", "expected"), [(0, True), (49, True), (50, False), (79, False), (80, True)])
def test_range_end_is_exclusive(seq: int, expected: bool) -> None:
    assert is_in_ranges(seq, ((0, 50), (80, NO_END))) is expected


@pytest.mark.parametrize(
    ("seq", "expected"),
    [(-1, ((0, 50), (80, NO_END))), (10, ((11, 50), (80, NO_END))), (49, ((80, NO_END),)), (90, ((91, NO_END),))],
)
def test_ranges_after_removes_backfilled_positions(seq: int, expected: RawOnlyRanges) -> None:
    assert ranges_after(seq, ((0, 50), (80, NO_END))) == expected


def test_writes_no_file_without_raw_only_ranges(tmp_path: Path) -> None:
    update_ranges(tmp_path / "checkpoint", 10, is_raw_only=False)
    assert not (tmp_path / "checkpoint").exists()


def test_a_changed_digit_of_the_plan_is_ignored(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    for number, position in enumerate((1000, 2000)):
        path = checkpoint.folder / "offsets" / str(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b'v1\n{}\n{"position":%d}' % position)
        checkpoint.record_plan(number)
    plan, path = checkpoint.read_plan(), tmp_path / "batch.json"
    assert plan is not None
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"end":2000', b'"end":6000'))
    assert path.read_bytes() != text
    # Otherwise, the log would have a gap before its next events.
    assert checkpoint.read_plan() == plan
    path.write_bytes(text)
    (checkpoint.folder / "offsets" / "1").write_bytes(b"")
    assert checkpoint.read_plan() == plan
