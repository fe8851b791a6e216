"""Tests of the check of data files."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clew.lake.file_check import CheckLevel, FileState, check_file

ROWS = {
    "name": ["b", "a", None],
    "seq": [3, 5, 4],
    "at": [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)],
    "ratio": [0.5, float("nan"), 1.5],
    "tags": [["x"], [], None],
}
ACTION: dict[str, Any] = {
    "num_records": 3,
    "min.name": "a",
    "max.name": "b",
    "min.seq": 3,
    "max.seq": 5,
    "min.at": datetime(2026, 1, 1, tzinfo=UTC),
    "max.at": datetime(2026, 1, 3, tzinfo=UTC),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write a file with two row groups."""
    path = tmp_path / "part-0.parquet"
    pq.write_table(pa.table(ROWS), path, row_group_size=2, write_page_checksum=True)
    return path


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, FileState.INTACT),
        ({"min.name": "A", "max.seq": 9}, FileState.INTACT),
        ({"min.name": "b"}, FileState.WRONG_STATISTICS),
        ({"max.seq": 4}, FileState.WRONG_STATISTICS),
        ({"min.at": datetime(2026, 1, 2, tzinfo=UTC)}, FileState.WRONG_STATISTICS),
        ({"min.seq": None}, FileState.WRONG_STATISTICS),
        ({"min.seq": None, "max.seq": None}, FileState.INTACT),
        ({"num_records": 4}, FileState.WRONG_STATISTICS),
        ({"num_records": None}, FileState.WRONG_STATISTICS),
    ],
)
def test_compares_statistics_with_rows(change: dict[str, Any], state: FileState, path: Path) -> None:
    assert check_file(path, CheckLevel.CONTENT, {**ACTION, **change}) is state
    assert check_file(path, CheckLevel.FOOTERS, {**ACTION, **change}) is FileState.INTACT


def test_finds_damaged_pages_and_footers(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[content.index(b"b")] ^= 1
    path.write_bytes(content)
    assert check_file(path, CheckLevel.CONTENT, ACTION) is FileState.DAMAGED
    path.write_bytes(content[:-1])
    assert check_file(path, CheckLevel.FOOTERS, ACTION) is FileState.DAMAGED
    assert check_file(path, CheckLevel.SIZES, ACTION) is FileState.INTACT
