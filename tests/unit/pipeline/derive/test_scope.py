"""Reading and replacing the rows of touched entities, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from clew.lake.lake import BatchId, Lake, active_files
from clew.pipeline.derive import scope as scope_module
from clew.pipeline.derive.scope import RUN, RefreshScope, drop_keys, write_rows

TABLE = "state_run_io"
BATCH = BatchId("test", 0)
SCHEMA = pa.schema(
    [("run_uuid", pa.string()), ("dataset_name", pa.string()), ("position", pa.int64()), ("last_seq", pa.int64())]
)
ROWS_PER_FILE = 10


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope_module, "_ROWS_PER_FILE", ROWS_PER_FILE)
    monkeypatch.setattr(scope_module, "_SMALL_FILE_ROWS", ROWS_PER_FILE // 2)


def make_rows(first: int, last: int) -> list[dict[str, Any]]:
    """Return rows whose run ids begin with a time, as ids of version 7 do; every third row has no dataset."""
    return [
        {
            "run_uuid": f"0195-{number:04}",
            "dataset_name": f"d{number % 5}" if number % 3 else None,
            "position": number,
            "last_seq": number,
        }
        for number in range(first, last)
    ]


def create_scope(folder: Path, rows: list[dict[str, Any]], keys: pa.Table) -> RefreshScope:
    lake = Lake(folder)
    lake.create_or_validate()
    files = write_rows(str(folder), TABLE, pa.Table.from_pylist(rows, schema=SCHEMA))
    lake.replace(TABLE, SCHEMA, files, BATCH)
    return RefreshScope(cast("SparkSession", None), lake, {RUN: keys}, BATCH, is_small=True)


def runs(*numbers: int) -> pa.Table:
    return pa.table({"run_uuid": pa.array([f"0195-{number:04}" for number in numbers], pa.string())})


def read_rows(lake: Lake) -> list[dict[str, Any]]:
    return sorted(lake.require_table(TABLE).to_pyarrow_table().to_pylist(), key=lambda row: row["position"])


@pytest.mark.parametrize("numbers", [(), (7,), (7, 8, 99), (1, 15, 31), (5000,)])
def test_rows_of_keys_are_selected(numbers: tuple[int, ...], tmp_path: Path) -> None:
    scope = create_scope(tmp_path, make_rows(0, 40), runs(*numbers))
    found = scope.arrow_rows(TABLE, RUN, ("run_uuid",)).sort_by("position").to_pylist()
    assert found == [row for row in make_rows(0, 40) if row["position"] in numbers]


def test_keys_of_several_columns_may_be_null_or_numbers(tmp_path: Path) -> None:
    keys = pa.table({"dataset_name": pa.array([None, None, "d1"]), "position": pa.array([3, 4, 1])})
    scope = create_scope(tmp_path, make_rows(0, 40), keys)
    found = scope.arrow_rows(TABLE, RUN, ("dataset_name", "position"), ("position",)).sort_by("position")
    # Row 4 has a dataset.
    assert found.to_pydict() == {"position": [1, 3]}


def test_only_files_that_may_contain_a_key_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scope = create_scope(tmp_path, make_rows(0, 40), runs(12, 13, 5000))
    opened: set[str] = set()

    def open_parquet(path: str) -> str:
        opened.add(path)
        return path

    monkeypatch.setattr(scope_module, "open_parquet", open_parquet)
    assert scope.arrow_rows(TABLE, RUN, ("run_uuid",)).num_rows == 2
    assert len(opened) == 1


def test_replacement_rewrites_only_files_with_touched_rows(tmp_path: Path) -> None:
    scope = create_scope(tmp_path, make_rows(0, 40), runs(12, 13, 41))
    before = {file.name for file in active_files(scope.lake.require_table(TABLE))}
    new = [{**row, "dataset_name": "new"} for row in make_rows(12, 14)]
    written = write_rows(str(tmp_path), TABLE, pa.Table.from_pylist(new, schema=SCHEMA))
    scope.replace_files(TABLE, written, RUN, ("run_uuid",))
    after = {file.name for file in active_files(scope.lake.require_table(TABLE))}
    assert len(before - after) == 1
    assert read_rows(scope.lake) == [*make_rows(0, 12), *new, *make_rows(14, 40)]
    # The scope reads the new version.
    assert scope.arrow_rows(TABLE, RUN, ("run_uuid",)).sort_by("position").to_pylist() == new


def test_small_files_are_merged(tmp_path: Path) -> None:
    scope = create_scope(tmp_path, make_rows(0, 40), runs())
    counts = []
    for number in range(40, 80, 2):
        written = write_rows(str(tmp_path), TABLE, pa.Table.from_pylist(make_rows(number, number + 2), schema=SCHEMA))
        scope.replace_files(TABLE, written, RUN, ("run_uuid",))
        counts.append(len(active_files(scope.lake.require_table(TABLE))))
    assert max(counts) < 4 + len(counts)
    assert counts[-1] < 16
    assert read_rows(scope.lake) == make_rows(0, 80)


def test_rows_of_keys_are_dropped() -> None:
    rows = pa.Table.from_pylist(make_rows(0, 6), schema=SCHEMA)
    assert drop_keys(rows, runs(1, 2, 9), ["run_uuid"])["position"].to_pylist() == [0, 3, 4, 5]
    assert drop_keys(rows, runs(), ["run_uuid"]) == rows
