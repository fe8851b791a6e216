"""Tests of compaction and vacuum: compaction preserves rows, and vacuum deletes only unreferenced old files."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from clew.errors import ClewError
from clew.lake import compaction
from clew.lake.compaction import (
    ExpiredSelection,
    compact_tables,
    delete_rows_before,
    find_expired_events,
    inspect_file,
    rewrite_sorted,
    vacuum_tables,
)
from clew.lake.data_files import FileWriter
from clew.lake.lake import ActiveFile, BatchId, Lake, active_files, replace_files
from clew.lake.manifest import check_integrity
from clew.lake.scan import ValueRange, prune_files, scan_range
from clew.lake.schemas import FACET_TABLES, LARGE_COLUMNS, LINEAGE_EVENTS, Table

NAME = LINEAGE_EVENTS.name
START = datetime(2026, 1, 1, 10, 0, 0, 123_456, tzinfo=UTC)
LONG_TEXT = "x" * 100_000
HOURS_PER_DAY = 24


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    new_lake = Lake(tmp_path / "lake")
    new_lake.create_or_validate()
    return new_lake


def folder(lake: Lake) -> Path:
    return Path(str(lake.root))


def append(lake: Lake, number: int, run: str | None = None) -> None:
    row = {
        "event_id": f"event {number}",
        "seq": number,
        "event_time": START + timedelta(seconds=number),
        "event": LONG_TEXT,
        "run_uuid": run,
        "inputs": [{"namespace": "n", "name": f"d{number}", "version": None}],
    }
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    rows = pa.RecordBatch.from_pylist([row], schema=LINEAGE_EVENTS.schema)
    files = [*writer.add({NAME: rows}), *writer.flush()]
    assert lake.append(NAME, LINEAGE_EVENTS.schema, files, BatchId("app", number))


def append_received(lake: Lake, moments: list[datetime | None]) -> None:
    """Append a file with one row per moment of receipt, of jobs in reverse order."""
    events = [
        {"seq": seq, "received_at": moment, "job_name": f"job {9 - seq}", "run_uuid": f"run {seq}"}
        for seq, moment in enumerate(moments)
    ]
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    files = [
        *writer.add({NAME: pa.RecordBatch.from_pylist(events, schema=LINEAGE_EVENTS.schema)}),
        *writer.flush(),
    ]
    assert lake.append(NAME, LINEAGE_EVENTS.schema, files, BatchId("app", 0))


def delete_before(lake: Lake, cutoff: datetime) -> int:
    return delete_rows_before(
        lake, cutoff, find_expired_events(lake, cutoff, ExpiredSelection())["seq"].combine_chunks()
    )[NAME]


def rows(lake: Lake) -> pa.Table:
    return DeltaTable(folder(lake) / NAME).to_pyarrow_table().sort_by("seq")


def parquet_files(lake: Lake) -> set[Path]:
    return set((folder(lake) / NAME).glob("*.parquet"))


def test_compaction_preserves_rows(lake: Lake) -> None:
    for number in range(6):
        append(lake, number)
    before = rows(lake)
    assert compact_tables(lake)[NAME] == (6, 1)
    assert rows(lake) == before
    assert compact_tables(lake)[NAME] == (1, 1)
    assert not lake.append(NAME, LINEAGE_EVENTS.schema, [], BatchId("app", 5)), (
        "a committed batch must be recognized after compaction"
    )


def test_compaction_respects_the_target_size(lake: Lake) -> None:
    for number in range(6):
        append(lake, number)
    assert compact_tables(lake, target_bytes=2 * len(LONG_TEXT) + 50_000)[NAME] == (6, 3)
    assert compact_tables(lake, target_bytes=2 * len(LONG_TEXT) + 50_000)[NAME] == (3, 3)


def test_compaction_sorts_rows(lake: Lake) -> None:
    for number in range(6):
        append(lake, number, run=f"run {number % 2}")
    compact_tables(lake)
    (path,) = lake.files(NAME)
    compacted = pq.read_table(path, partitioning=None)
    assert compacted["run_uuid"].to_pylist() == ["run 0"] * 3 + ["run 1"] * 3
    assert compacted["seq"].to_pylist() == [0, 2, 4, 1, 3, 5]
    assert inspect_file(lake.root / NAME, ActiveFile(Path(path).name, 0, 0)).sort_columns == ("run_uuid", "seq")


def test_compaction_sorts_files_again_that_are_sorted_by_other_columns(lake: Lake) -> None:
    for number in range(4):
        append(lake, number, run=f"run {number % 2}")
    table = lake.table(NAME)
    assert table is not None
    by_job = replace(LINEAGE_EVENTS, sort_columns=("job_namespace", "job_name", "seq"))
    files = active_files(table)
    old = rewrite_sorted(lake.root / NAME, by_job, LINEAGE_EVENTS.schema, files)
    replace_files(lake, NAME, files, [old], is_data_change=False)
    assert compact_tables(lake)[NAME] == (1, 1)
    (path,) = lake.files(NAME)
    assert pq.read_table(path, partitioning=None)["run_uuid"].to_pylist() == ["run 0", "run 0", "run 1", "run 1"]


@pytest.mark.parametrize("table", [LINEAGE_EVENTS, *FACET_TABLES], ids=lambda table: table.name)
def test_a_look_up_by_run_reads_at_most_two_row_groups_of_a_compacted_file(
    lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs of 20 jobs alternate, and each uses its own datasets and one that all share."""
    monkeypatch.setattr(compaction, "_MAX_ROWS_PER_GROUP", 50)
    rows_of_table = [
        {
            "seq": seq,
            "run_uuid": f"{run:032x}",
            "job_name": f"job {run % 20}",
            "dataset_name": f"dataset {dataset or run}",
            "name": f"facet {facet}",
        }
        for seq, (run, dataset, facet) in enumerate(product(range(100), range(3), range(4)))
    ]
    known = [{name: row[name] for name in row if name in table.schema.names} for row in rows_of_table]
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    batch = pa.RecordBatch.from_pylist(known, schema=table.schema)
    files = [*writer.add({table.name: batch}), *writer.flush()]
    assert lake.append(table.name, table.schema, files, BatchId("app", 0))
    compact_tables(lake)
    (path,) = lake.files(table.name)
    footer = pq.read_metadata(path)
    column = table.schema.get_field_index("run_uuid")
    bounds = [footer.row_group(index).column(column).statistics for index in range(footer.num_row_groups)]
    assert len(bounds) == len(rows_of_table) // 50
    read = [sum(group.min <= f"{run:032x}" <= group.max for group in bounds) for run in range(100)]
    assert max(read) <= 2


def test_size_tiered_compaction_limits_write_amplification(lake: Lake) -> None:
    written_bytes = 0
    for number in range(64):
        append(lake, number)
        if number % 4 == 3:
            existing = parquet_files(lake)
            compact_tables(lake, target_bytes=128 * len(LONG_TEXT), is_size_tiered=True)
            written_bytes += sum(
                inspect_file(lake.root / NAME, ActiveFile(new.name, 0, 0)).uncompressed_bytes
                for new in parquet_files(lake) - existing
            )
    assert rows(lake)["seq"].to_pylist() == list(range(64))
    assert len(lake.files(NAME)) <= 4 + 6
    assert written_bytes < 6 * 64 * len(LONG_TEXT), "each row must be rewritten about once per doubling"


def test_compaction_fills_added_columns_with_null(lake: Lake) -> None:
    old_schema = LINEAGE_EVENTS.schema.remove(LINEAGE_EVENTS.schema.get_field_index("producer"))
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    row = pa.RecordBatch.from_pylist([{"event_id": "event 0", "seq": 0}], schema=old_schema)
    lake.append(NAME, LINEAGE_EVENTS.schema, [*writer.add({NAME: row}), *writer.flush()], BatchId("app", 0))
    append(lake, 1)
    before = rows(lake)
    compact_tables(lake)
    assert rows(lake) == before
    assert rows(lake)["producer"].to_pylist() == [None, None]


def test_concurrent_compactions_do_not_duplicate_rows(lake: Lake) -> None:
    for number in range(3):
        append(lake, number)
    table = lake.table(NAME)
    assert table is not None
    files = active_files(table)
    compact_tables(Lake(lake.root))
    rewritten = rewrite_sorted(lake.root / NAME, LINEAGE_EVENTS, LINEAGE_EVENTS.schema, files)
    with pytest.raises(
        ClewError, match=r"The file part-.* of the table lineage_events was replaced by another process"
    ):
        replace_files(lake, NAME, files, [rewritten], is_data_change=False)
    assert rows(lake)["seq"].to_pylist() == [0, 1, 2]


def test_compacted_files_are_pruned_by_event_time(lake: Lake) -> None:
    for number in range(3):
        append(lake, number)
    compact_tables(lake)
    last = START + timedelta(seconds=2)
    for start, count in ((last - timedelta(microseconds=1), 1), (last, 0)):
        condition = pc.field("event_time") > pa.scalar(start)
        assert DeltaTable(folder(lake) / NAME).to_pyarrow_dataset().to_table(filter=condition).num_rows == count


def test_compaction_writes_no_statistics_of_event_bodies(lake: Lake) -> None:
    for number in range(3):
        append(lake, number)
    compact_tables(lake)
    actions = pa.table(DeltaTable(folder(lake) / NAME).get_add_actions(flatten=True))
    assert actions["max.seq"].to_pylist() == [2]
    assert "max.event" not in actions.column_names or actions["max.event"].to_pylist() == [None]


@pytest.mark.parametrize("location", ["folder", "bucket"])
def test_files_can_be_scanned_and_compacted_after_a_deletion(location: str, request: pytest.FixtureRequest) -> None:
    lake = Lake(request.getfixturevalue("tmp_path" if location == "folder" else "bucket"))
    lake.create_or_validate()
    append_received(lake, [START, START - timedelta(microseconds=1), None, START + timedelta(days=1)])
    assert delete_before(lake, START) == 1
    table = lake.table(NAME)
    assert table is not None
    retained = table.to_pyarrow_table(filesystem=lake.storage.filesystem(NAME))["seq"].to_pylist()
    assert sorted(retained) == [0, 2, 3], "a row without a time of receipt is retained"
    (file,) = active_files(table)
    assert inspect_file(lake.root / NAME, file).sort_columns == LINEAGE_EVENTS.sort_columns
    for seq, count in ((0, 1), (1, 0), (3, 1)):
        value_range = ValueRange("run_uuid", f"run {seq}", f"run {seq}")
        assert scan_range(lake, LINEAGE_EVENTS, value_range).to_table(filter=value_range.filter()).num_rows == count
    assert prune_files(lake, LINEAGE_EVENTS, ValueRange("seq", 4, 9)) == []
    check_integrity(lake.root)
    assert compact_tables(lake)[NAME] == (1, 1)
    assert delete_before(lake, START) == 0


def test_a_deletion_stops_if_the_lock_was_lost(lake: Lake) -> None:
    append_received(lake, [START])

    def check_lock() -> None:
        raise ClewError("The lock was lost.")

    with pytest.raises(ClewError, match="The lock was lost"):
        delete_before(Lake(lake.root, check_lock), START + timedelta(days=1))
    assert rows(lake)["seq"].to_pylist() == [0]


def test_appends_during_compaction_are_neither_lost_nor_duplicated(lake: Lake) -> None:
    count, errors = 40, []

    def write() -> None:
        writer_lake = Lake(lake.root)
        try:
            for number in range(count):
                append(writer_lake, number)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    compactions = 0
    while writer.is_alive():
        before, after = compact_tables(lake)[NAME]
        compactions += after < before
        vacuum_tables(lake, HOURS_PER_DAY)
    writer.join()
    compact_tables(lake)
    assert errors == []
    assert compactions, "no compaction ran during the appends"
    assert rows(lake)["seq"].to_pylist() == list(range(count))
    assert len(lake.files(NAME)) == 1


@pytest.mark.parametrize(("hours", "remaining"), [(7 * HOURS_PER_DAY, 4), (0, 1)])
def test_vacuum_removes_only_unreferenced_files(lake: Lake, hours: int, remaining: int) -> None:
    for number in range(3):
        append(lake, number)
    compact_tables(lake)
    size = sum(path.stat().st_size for path in parquet_files(lake))
    count, removed_bytes = vacuum_tables(lake, hours)[NAME]
    assert len(parquet_files(lake)) == remaining == 4 - count
    assert sum(path.stat().st_size for path in parquet_files(lake)) == size - removed_bytes
    assert rows(lake).num_rows == 3


def test_vacuum_removes_old_orphans_and_keeps_recent_files(lake: Lake) -> None:
    append(lake, 0)
    orphan, recent = (folder(lake) / NAME / f"part-{name}.parquet" for name in ("orphan", "recent"))
    for path in (orphan, recent):
        path.write_bytes(b"half a file")
    long_ago = time.time() - timedelta(days=8).total_seconds()
    os.utime(orphan, (long_ago, long_ago))
    assert vacuum_tables(lake, 7 * HOURS_PER_DAY)[NAME] == (1, 11)
    assert (orphan.exists(), recent.exists()) == (False, True)
    assert rows(lake).num_rows == 1


@pytest.mark.parametrize(("minutes", "remaining"), [(55, [0, 1, 2, 3, 4]), (65, [3, 4])])
def test_vacuum_removes_commits_older_than_an_hour(lake: Lake, minutes: int, remaining: list[int]) -> None:
    append(lake, 0)
    stale_lake = Lake(lake.root)
    assert len(stale_lake.files(NAME)) == 1
    append(lake, 1)
    append(lake, 2)
    DeltaTable(folder(lake) / NAME).create_checkpoint()
    age_log(lake, timedelta(minutes=minutes))
    append(lake, 3)
    assert commit_versions(lake) == [0, 1, 2, 3, 4]
    vacuum_tables(lake, 7 * HOURS_PER_DAY)
    assert commit_versions(lake) == remaining
    assert rows(lake)["seq"].to_pylist() == [0, 1, 2, 3]
    assert stale_lake.files(NAME) == lake.files(NAME)
    assert not stale_lake.append(NAME, LINEAGE_EVENTS.schema, [], BatchId("app", 2))


def commit_versions(lake: Lake) -> list[int]:
    return sorted(int(path.stem) for path in (folder(lake) / NAME / "_delta_log").glob("*.json"))


def age_log(lake: Lake, age: timedelta) -> None:
    then = time.time() - age.total_seconds()
    for path in (folder(lake) / NAME / "_delta_log").iterdir():
        os.utime(path, (then, then))
