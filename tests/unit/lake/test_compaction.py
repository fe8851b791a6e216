"""Upkeep of the lake: merged files hold the same rows, whatever is committed meanwhile, and only old files go."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from clew.errors import ClewError
from clew.lake.compaction import compact_tables, inspect_file, rewrite_sorted, vacuum_tables
from clew.lake.data_files import FileWriter
from clew.lake.lake import ActiveFile, BatchId, Lake, active_files, replace_files
from clew.lake.schemas import LARGE_COLUMNS, LINEAGE_EVENTS

NAME = LINEAGE_EVENTS.name
START = datetime(2026, 1, 1, 10, 0, 0, 123_456, tzinfo=UTC)
LONG_TEXT = "x" * 100_000
DAY = 24


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = Lake(tmp_path / "lake")
    made.create_or_validate()
    return made


def folder(lake: Lake) -> Path:
    return Path(str(lake.root))


def append(lake: Lake, number: int, job: str | None = None) -> None:
    row = {
        "event_id": f"event {number}",
        "seq": number,
        "event_time": START + timedelta(seconds=number),
        "event": LONG_TEXT,
        "job_name": job,
        "inputs": [{"namespace": "n", "name": f"d{number}", "version": None}],
    }
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    rows = pa.RecordBatch.from_pylist([row], schema=LINEAGE_EVENTS.schema)
    files = [*writer.add({NAME: rows}), *writer.flush()]
    assert lake.append(NAME, LINEAGE_EVENTS.schema, files, BatchId("app", number))


def rows(lake: Lake) -> pa.Table:
    return DeltaTable(folder(lake) / NAME).to_pyarrow_table().sort_by("seq")


def parquet_files(lake: Lake) -> set[Path]:
    return set((folder(lake) / NAME).glob("*.parquet"))


def test_merged_files_hold_the_same_rows(lake: Lake) -> None:
    for number in range(6):
        append(lake, number)
    before, state = rows(lake), lake.source_fingerprint()
    assert compact_tables(lake)[NAME] == (6, 1)
    assert rows(lake) == before
    assert lake.source_fingerprint() == state, "derived tables would be written again for nothing"
    assert compact_tables(lake)[NAME] == (1, 1)
    assert not lake.append(NAME, LINEAGE_EVENTS.schema, [], BatchId("app", 5)), "a batch is known after a merge"


def test_merged_files_grow_to_the_target_only(lake: Lake) -> None:
    for number in range(6):
        append(lake, number)
    assert compact_tables(lake, target_bytes=2 * len(LONG_TEXT) + 50_000)[NAME] == (6, 3)
    assert compact_tables(lake, target_bytes=2 * len(LONG_TEXT) + 50_000)[NAME] == (3, 3)


def test_merged_rows_stand_in_the_order_that_readers_ask_by(lake: Lake) -> None:
    for number in range(6):
        append(lake, number, job=f"job {number % 2}")
    compact_tables(lake)
    (path,) = lake.files(NAME)
    merged = pq.read_table(path, partitioning=None)
    assert merged["job_name"].to_pylist() == ["job 0"] * 3 + ["job 1"] * 3
    assert merged["seq"].to_pylist() == [0, 2, 4, 1, 3, 5]
    assert inspect_file(lake.root / NAME, ActiveFile(Path(path).name, 0, 0)).is_sorted


def test_a_merge_bit_by_bit_does_not_write_large_files_again_and_again(lake: Lake) -> None:
    written = 0
    for number in range(64):
        append(lake, number)
        if number % 4 == 3:
            known = parquet_files(lake)
            compact_tables(lake, target_bytes=128 * len(LONG_TEXT), is_size_tiered=True)
            written += sum(
                inspect_file(lake.root / NAME, ActiveFile(new.name, 0, 0)).uncompressed_bytes
                for new in parquet_files(lake) - known
            )
    assert rows(lake)["seq"].to_pylist() == list(range(64))
    assert len(lake.files(NAME)) <= 4 + 6
    assert written < 6 * 64 * len(LONG_TEXT), "each row is written about once per doubling"


def test_columns_that_came_later_are_empty_in_merged_rows(lake: Lake) -> None:
    older = LINEAGE_EVENTS.schema.remove(LINEAGE_EVENTS.schema.get_field_index("producer"))
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    row = pa.RecordBatch.from_pylist([{"event_id": "event 0", "seq": 0}], schema=older)
    lake.append(NAME, LINEAGE_EVENTS.schema, [*writer.add({NAME: row}), *writer.flush()], BatchId("app", 0))
    append(lake, 1)
    before = rows(lake)
    compact_tables(lake)
    assert rows(lake) == before
    assert rows(lake)["producer"].to_pylist() == [None, None]


def test_two_merges_at_once_do_not_double_a_row(lake: Lake) -> None:
    for number in range(3):
        append(lake, number)
    seen = lake.table(NAME)
    assert seen is not None
    files = active_files(seen)
    compact_tables(Lake(lake.root))
    other = rewrite_sorted(lake.root / NAME, LINEAGE_EVENTS, LINEAGE_EVENTS.schema, files)
    with pytest.raises(
        ClewError, match=r"The file part-.* of the table lineage_events was replaced by another process"
    ):
        replace_files(lake, NAME, files, [other], is_data_change=False)
    assert rows(lake)["seq"].to_pylist() == [0, 1, 2]


def test_readers_skip_merged_files_by_time_and_find_what_they_seek(lake: Lake) -> None:
    for number in range(3):
        append(lake, number)
    compact_tables(lake)
    last = START + timedelta(seconds=2)
    for moment, found in ((last - timedelta(microseconds=1), 1), (last, 0)):
        wanted = pc.field("event_time") > pa.scalar(moment)
        assert DeltaTable(folder(lake) / NAME).to_pyarrow_dataset().to_table(filter=wanted).num_rows == found


def test_whole_events_stay_out_of_the_tables_log(lake: Lake) -> None:
    for number in range(3):
        append(lake, number)
    compact_tables(lake)
    actions = pa.table(DeltaTable(folder(lake) / NAME).get_add_actions(flatten=True))
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
        before, after = compact_tables(lake)[NAME]
        merges += after < before
        vacuum_tables(lake, DAY)
    writer.join()
    compact_tables(lake)
    assert faults == []
    assert merges, "nothing was merged while batches came in"
    assert rows(lake)["seq"].to_pylist() == list(range(count))
    assert len(lake.files(NAME)) == 1


@pytest.mark.parametrize(("hours", "left"), [(7 * DAY, 4), (0, 1)])
def test_only_files_that_no_kept_version_names_are_removed(lake: Lake, hours: int, left: int) -> None:
    for number in range(3):
        append(lake, number)
    compact_tables(lake)
    size = sum(path.stat().st_size for path in parquet_files(lake))
    count, removed = vacuum_tables(lake, hours)[NAME]
    assert len(parquet_files(lake)) == left == 4 - count
    assert sum(path.stat().st_size for path in parquet_files(lake)) == size - removed
    assert rows(lake).num_rows == 3


def test_what_a_killed_worker_left_is_removed_and_what_a_worker_writes_now_is_not(lake: Lake) -> None:
    append(lake, 0)
    left, written = (folder(lake) / NAME / f"part-{name}.parquet" for name in ("left", "written"))
    for path in (left, written):
        path.write_bytes(b"half a file")
    long_ago = time.time() - timedelta(days=8).total_seconds()
    os.utime(left, (long_ago, long_ago))
    assert vacuum_tables(lake, 7 * DAY)[NAME] == (1, 11)
    assert (left.exists(), written.exists()) == (False, True)
    assert rows(lake).num_rows == 1


@pytest.mark.parametrize(("minutes", "left"), [(55, [0, 1, 2, 3, 4]), (65, [3, 4])])
def test_upkeep_removes_commits_of_more_than_an_hour_ago_and_no_commit_does(
    lake: Lake, minutes: int, left: list[int]
) -> None:
    append(lake, 0)
    late = Lake(lake.root)
    assert len(late.files(NAME)) == 1
    append(lake, 1)
    append(lake, 2)
    DeltaTable(folder(lake) / NAME).create_checkpoint()
    age(lake, timedelta(minutes=minutes))
    append(lake, 3)
    assert commits(lake) == [0, 1, 2, 3, 4]
    vacuum_tables(lake, 7 * DAY)
    assert commits(lake) == left
    assert rows(lake)["seq"].to_pylist() == [0, 1, 2, 3]
    assert late.files(NAME) == lake.files(NAME)
    assert not late.append(NAME, LINEAGE_EVENTS.schema, [], BatchId("app", 2))


def commits(lake: Lake) -> list[int]:
    return sorted(int(path.stem) for path in (folder(lake) / NAME / "_delta_log").glob("*.json"))


def age(lake: Lake, by: timedelta) -> None:
    then = time.time() - by.total_seconds()
    for path in (folder(lake) / NAME / "_delta_log").iterdir():
        os.utime(path, (then, then))
