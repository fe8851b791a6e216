"""Which parts of the log are raw: chosen once, and the same when a batch comes again."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.pipeline.checkpoint import RawOnlyRanges, is_in_ranges, ranges_after, update_ranges

OPEN = 2**63 - 1


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ([(0, False)], ()),
        ([(0, True)], ((0, OPEN),)),
        ([(0, True), (0, True)], ((0, OPEN),)),
        ([(0, True), (50, True)], ((0, 50), (50, OPEN))),
        ([(0, True), (50, False)], ((0, 50),)),
        ([(0, True), (50, False), (80, True)], ((0, 50), (80, OPEN))),
        ([(10, False), (20, True), (20, False)], ()),
        ([(40, True), (0, False)], ()),
    ],
)
def test_a_choice_holds_from_its_position_on(
    choices: list[tuple[int, bool]], expected: RawOnlyRanges, tmp_path: Path
) -> None:
    spans: RawOnlyRanges = ()
    for position, is_raw_only in choices:
        spans = update_ranges(tmp_path / "checkpoint", position, is_raw_only=is_raw_only)
    assert spans == expected
    # A call that chooses nothing new reads what was chosen, up to where it begins itself.
    assert update_ranges(tmp_path / "checkpoint", OPEN, is_raw_only=False) == expected


@pytest.mark.parametrize(("seq", "expected"), [(0, True), (49, True), (50, False), (79, False), (80, True)])
def test_a_span_ends_before_its_end(seq: int, expected: bool) -> None:
    assert is_in_ranges(seq, ((0, 50), (80, OPEN))) is expected


@pytest.mark.parametrize(
    ("seq", "expected"),
    [(-1, ((0, 50), (80, OPEN))), (10, ((11, 50), (80, OPEN))), (49, ((80, OPEN),)), (90, ((91, OPEN),))],
)
def test_what_a_backfill_has_passed_is_no_longer_raw(seq: int, expected: RawOnlyRanges) -> None:
    assert ranges_after(seq, ((0, 50), (80, OPEN))) == expected


def test_nothing_is_written_where_nothing_is_raw(tmp_path: Path) -> None:
    update_ranges(tmp_path / "checkpoint", 10, is_raw_only=False)
    assert not (tmp_path / "checkpoint").exists()
