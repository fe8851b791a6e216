"""Upkeep of the lake: merged files hold the same rows, whatever is committed meanwhile, and only old files go."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from clew.lake.delta import Batch, Lake
from clew.lake.files import FileWriter
from clew.lake.tables import LARGE_COLUMNS, LINEAGE_EVENTS
from clew.lake.upkeep import merge_files, remove_files

NAME = LINEAGE_EVENTS.name
START = datetime(2026, 1, 1, 10, 0, 0, 123_456, tzinfo=UTC)
LONG_TEXT = "x" * 100_000
DAY = 24


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.prepare()
    return made


def append(lake: Lake, number: int) -> None:
    row = {
        "event_id": f"event {number}",
        "seq": number,
        "event_time": START + timedelta(seconds=number),
        "event": LONG_TEXT,
        "inputs": [{"namespace": "n", "name": f"d{number}", "version": None}],
    }
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    rows = pa.RecordBatch.from_pylist([row], schema=LINEAGE_EVENTS.schema)
    files = [*writer.add({NAME: rows}), *writer.flush()]
    assert lake.append(NAME, LINEAGE_EVENTS.schema, files, Batch("app", number))


def rows(lake: Lake) -> pa.Table:
    return DeltaTable(lake.root / NAME).to_pyarrow_table().sort_by("seq")


def parquet_files(lake: Lake) -> set[Path]:
    return set((lake.root / NAME).glob("*.parquet"))


def test_merged_files_hold_the_same_rows(lake: Lake) -> None:
    for number in range(6):
        append(lake, number)
    before, state = rows(lake), lake.state_of_events()
    assert merge_files(lake)[NAME] == (6, 1)
    assert rows(lake) == before
    assert lake.state_of_events() == state, "derived tables would be written again for nothing"
    assert merge_files(lake)[NAME] == (1, 1)
    assert not lake.append(NAME, LINEAGE_EVENTS.schema, [], Batch("app", 5)), "a batch is known after a merge"


def test_merged_files_grow_to_the_target_only(lake: Lake) -> None:
    for number in range(6):
        append(lake, number)
    size = sum(path.stat().st_size for path in parquet_files(lake))
    before, after = merge_files(lake, target_bytes=size // 3)[NAME]
    assert (before, after) == (6, 3)


def test_readers_skip_merged_files_by_time_and_find_what_they_seek(lake: Lake) -> None:
    for number in range(3):
        append(lake, number)
    merge_files(lake)
    last = START + timedelta(seconds=2)
    for moment, found in ((last - timedelta(microseconds=1), 1), (last, 0)):
        wanted = pc.field("event_time") > pa.scalar(moment)
        assert DeltaTable(lake.root / NAME).to_pyarrow_dataset().to_table(filter=wanted).num_rows == found


def test_whole_events_stay_out_of_the_tables_log(lake: Lake) -> None:
    for number in range(3):
        append(lake, number)
    merge_files(lake)
    actions = pa.table(DeltaTable(lake.root / NAME).get_add_actions(flatten=True))
    assert actions["max.seq"].to_pylist() == [2]
    assert "max.event" not in actions.column_names or actions["max.event"].to_pylist() == [None]


def test_batches_committed_during_merges_are_all_there_once(lake: Lake) -> None:
    count, faults = 40, []

    def write() -> None:
        stream = Lake(lake.root)
        try:
            for number in range(count):
                append(stream, number)
        except BaseException as fault:  # noqa: BLE001
            faults.append(fault)

    writer = threading.Thread(target=write)
    writer.start()
    merges = 0
    while writer.is_alive():
        before, after = merge_files(lake)[NAME]
        merges += after < before
        remove_files(lake, DAY)
    writer.join()
    merge_files(lake)
    assert faults == []
    assert merges, "nothing was merged while batches came in"
    assert rows(lake)["seq"].to_pylist() == list(range(count))
    assert len(lake.files(NAME)) == 1


@pytest.mark.parametrize(("hours", "left"), [(7 * DAY, 4), (0, 1)])
def test_only_files_that_no_kept_version_names_are_removed(lake: Lake, hours: int, left: int) -> None:
    for number in range(3):
        append(lake, number)
    merge_files(lake)
    size = sum(path.stat().st_size for path in parquet_files(lake))
    count, removed = remove_files(lake, hours)[NAME]
    assert len(parquet_files(lake)) == left == 4 - count
    assert sum(path.stat().st_size for path in parquet_files(lake)) == size - removed
    assert rows(lake).num_rows == 3


def test_what_a_killed_worker_left_is_removed_and_what_a_worker_writes_now_is_not(lake: Lake) -> None:
    append(lake, 0)
    left, written = (lake.root / NAME / f"part-{name}.parquet" for name in ("left", "written"))
    for path in (left, written):
        path.write_bytes(b"half a file")
    long_ago = time.time() - timedelta(days=8).total_seconds()
    os.utime(left, (long_ago, long_ago))
    assert remove_files(lake, 7 * DAY)[NAME] == (1, 11)
    assert (left.exists(), written.exists()) == (False, True)
    assert rows(lake).num_rows == 1
