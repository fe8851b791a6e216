"""Tests of the repair of damaged tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.facets import FacetOrder
from clew.events.streams import Stream
from clew.index.writer import IndexWriter
from clew.lake import lake as lake_module
from clew.lake.file_check import CheckLevel
from clew.lake.lake import Lake
from clew.lake.manifest import check_integrity, find_damage, read_manifest
from clew.lake.refresh_state import RefreshState, write_refresh_state
from clew.lake.schemas import EVENT_TABLE_NAMES
from clew.lake.storage import LocalStorage, Storage, open_storage
from clew.pipeline.checkpoint import BatchRecord, Checkpoint, append_batch_record
from clew.pipeline.ingest import IngestStats
from clew.pipeline.locks import PIPELINE_LOCK, LockedError, acquire_lock
from clew.pipeline.preflight import check_consistency
from clew.pipeline.repair import repair_lake, repair_manifest

IngestLog = Callable[..., IngestStats]
Rows = dict[str, list[str]]
CELL = {"execution_id": "e", "cell_id": "c", "timestamp": "2026-01-01T10:00:00Z"}
RUNTIME_EVENT = {"event_type": "cell_execution_start", "cell_source": "x = 1", **CELL}
DATAFRAME_EVENT = {"event_type": "dataframe_lineage", "operation_type": "selection", **CELL}


def make_event(number: int) -> bytes:
    """Make an event with facets of each kind, one of them large."""
    facets = {"note": {"text": "x" * (100_000 if number == 3 else 1)}}
    dataset = {"namespace": "n", "name": f"d{number}", "facets": {"schema": {"fields": [{"name": "c"}]}}}
    return json.dumps(
        {
            "eventType": "COMPLETE",
            "eventTime": f"2026-01-01T10:{number:02}:00Z",
            "run": {"runId": f"r{number}", "facets": facets},
            "job": {"namespace": "n", "name": "j", "facets": {"documentation": {"description": "d"}}},
            "inputs": [dataset],
            "outputs": [{**dataset, "name": "out"}],
        }
    ).encode()


def append(home: DataDir, *bodies: bytes) -> None:
    with LogWriter(home.log, segment_bytes=2000) as log:
        for body in bodies:
            stream = guess_stream(body) or Stream.OPENLINEAGE
            log.append_duplicates([IncomingEvent(stream, "test", body)])


@pytest.fixture
def filled_home(home: DataDir, ingest_log: IngestLog) -> DataDir:
    """Ingest two batches, with a duplicate, a rejected event and a notebook event in each."""
    for first in (0, 5):
        start = end_position(home.log)
        notebook_events = (RUNTIME_EVENT, DATAFRAME_EVENT)
        cells = [json.dumps({**event, "session_id": f"s{first}"}).encode() for event in notebook_events]
        append(home, *map(make_event, range(first, first + 5)), make_event(0), b'{"no": %d}' % first, *cells)
        ingest_log(start)
    write_checkpoint(home, 1)
    return home


def write_checkpoint(home: DataDir, number: int) -> None:
    """Write the files of a committed batch, as Spark does."""
    files = {"metadata": '{"id":"1"}', f"offsets/{number}": f'v1\n{{}}\n{{"position":{end_position(home.log)}}}'}
    for name, text in {**files, f"commits/{number}": "v1\n{}"}.items():
        path = home.checkpoint / "log" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (home.checkpoint / "app").write_text("app")


def read_rows(home: DataDir) -> Rows:
    lake = Lake(home.lake)
    tables = {name: lake.require_table(name).to_pyarrow_table().to_pylist() for name in EVENT_TABLE_NAMES}
    return {name: sorted(json.dumps(row, default=str, sort_keys=True) for row in rows) for name, rows in tables.items()}


def newest(home: DataDir, table: str, pattern: str) -> Path:
    return max((home.lake_folder / table).glob(pattern), key=lambda path: path.stat().st_mtime)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove_files(home: DataDir, table: str) -> None:
    for path in (home.lake_folder / table).glob("*.parquet"):
        path.unlink()


def damage_delta_checkpoint(home: DataDir, table: str) -> None:
    Lake(home.lake).require_table(table).create_checkpoint()
    newest(home, table, "_delta_log/*.parquet").write_bytes(b"garbage")


DAMAGES: dict[str, Callable[[DataDir, str], Any]] = {
    "missing file": lambda home, table: newest(home, table, "*.parquet").unlink(),
    "empty file": lambda home, table: newest(home, table, "*.parquet").write_bytes(b""),
    "truncated file": lambda home, table: truncate(newest(home, table, "*.parquet")),
    "zeroed file": lambda home, table: zero(newest(home, table, "*.parquet")),
    "no files": remove_files,
    "empty commit": lambda home, table: newest(home, table, "_delta_log/*.json").write_bytes(b""),
    "truncated commit": lambda home, table: truncate(newest(home, table, "_delta_log/*.json")),
    "zeroed commit": lambda home, table: zero(newest(home, table, "_delta_log/*.json")),
    "first commit": lambda home, table: (home.lake_folder / table / "_delta_log" / f"{0:020}.json").unlink(),
    "garbage checkpoint": damage_delta_checkpoint,
    "missing log": lambda home, table: shutil.rmtree(home.lake_folder / table / "_delta_log"),
    "missing table": lambda home, table: shutil.rmtree(home.lake_folder / table),
}


CASES = {(damage, table) for damage in DAMAGES for table in ("lineage_events", "dataset_facets")}
CASES |= {(damage, table) for damage in ("missing file", "empty commit") for table in EVENT_TABLE_NAMES}


@pytest.mark.parametrize(("damage", "table"), sorted(CASES))
def test_repairs_a_table_from_the_log(damage: str, table: str, filled_home: DataDir, ingest_log: IngestLog) -> None:
    expected = read_rows(filled_home)
    assert expected[table]
    DAMAGES[damage](filled_home, table)
    with pytest.raises(ClewError, match=f"{table}.*\n.*doctor --repair") if damage != "zeroed file" else nullcontext():
        check_integrity(filled_home.lake)
    (repair,) = repair_lake(filled_home)
    assert (repair.table, repair.lost) == (table, None)
    assert read_rows(filled_home) == expected
    check_integrity(filled_home.lake)
    assert repair_lake(filled_home) == []
    assert Checkpoint(filled_home.checkpoint).must_reindex
    # The next batch has the next number.
    start = end_position(filled_home.log)
    append(filled_home, make_event(11))
    assert ingest_log(start).events == 1
    assert len(read_rows(filled_home)["lineage_events"]) == len(expected["lineage_events"]) + 1


@pytest.mark.parametrize("damage", ["empty commit", "missing log", "missing table"])
@pytest.mark.parametrize("step", ["copy", "commit", "move"])
def test_an_interrupted_repair_is_repeated(
    damage: str, step: str, filled_home: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_rows(filled_home)
    DAMAGES[damage](filled_home, "dataset_facets")

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    def run_next_copy(source: Storage, target: Storage) -> None:
        next(copies)(source, target)

    copies = iter([lake_module._copy_files, interrupt])
    with monkeypatch.context() as patch:
        if step == "move":
            patch.setattr(lake_module, "_copy_files", run_next_copy)
        elif step == "copy":
            patch.setattr(LocalStorage, "add", interrupt)
        else:
            patch.setattr(Lake, "_commit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            repair_lake(filled_home)
    message = "cannot be read|has no" if step == "copy" else "repair of the table .*dataset_facets was interrupted"
    with pytest.raises(ClewError, match=message):
        check_integrity(filled_home.lake)
    (repair,) = repair_lake(filled_home)
    assert (repair.table, repair.lost) == ("dataset_facets", None)
    assert read_rows(filled_home) == expected
    assert repair_lake(filled_home) == []


def test_repairs_several_tables(filled_home: DataDir) -> None:
    expected = read_rows(filled_home)
    damages = {"lineage_events": "zeroed commit", "run_facets": "missing file", "dataset_facets": "missing table"}
    for table, damage in damages.items():
        DAMAGES[damage](filled_home, table)
    assert {repair.table for repair in repair_lake(filled_home)} == set(damages)
    assert read_rows(filled_home) == expected


@pytest.mark.parametrize("damage", ["missing file", "missing commit", "missing log", "derived table"])
@pytest.mark.parametrize("home", ["bucket"], indirect=True)
def test_repairs_a_lake_in_a_bucket(damage: str, filled_home: DataDir) -> None:
    home, bucket = filled_home, filled_home.lake
    expected, table = read_rows(home), open_storage(bucket / "dataset_facets")
    logs = open_storage(bucket / "dataset_facets" / "_delta_log")
    if damage == "missing file":
        table.remove(next(file.name for file in table.list_files()))
    elif damage == "missing commit":
        logs.remove(f"{1:020}.json")
    elif damage == "missing log":
        logs.remove_all()
    else:
        # A table that is not a source table.
        open_storage(bucket / "runs" / "_delta_log").add(f"{0:020}.json", b"")
    with pytest.raises(ClewError, match="doctor --repair"):
        check_integrity(bucket)
    (repair,) = repair_lake(home)
    assert (repair.lost, repair.is_derived) == (None, damage == "derived table")
    assert read_rows(home) == expected
    check_integrity(bucket)
    assert repair_lake(home) == []
    open_storage(bucket).remove("manifest.json")
    assert repair_manifest(home) is not None
    check_integrity(bucket)


@pytest.mark.parametrize("damage", ["missing file", "empty commit", "missing table"])
def test_repairs_facets_without_the_log(damage: str, filled_home: DataDir) -> None:
    expected = read_rows(filled_home)
    shutil.rmtree(filled_home.log)
    DAMAGES[damage](filled_home, "dataset_facets")
    assert [repair.lost for repair in repair_lake(filled_home)] == [None]
    assert read_rows(filled_home) == expected


@pytest.mark.parametrize(("damage", "lost"), [("missing file", "5 of 5 rows"), ("missing table", "10 events")])
def test_names_what_is_lost(damage: str, lost: str, filled_home: DataDir) -> None:
    shutil.rmtree(filled_home.log)
    DAMAGES[damage](filled_home, "lineage_events")
    assert [repair.lost for repair in repair_lake(filled_home)] == [lost]
    assert repair_lake(filled_home) == []


def test_deletes_a_damaged_derived_table(filled_home: DataDir) -> None:
    shutil.copytree(filled_home.lake_folder / "run_facets", filled_home.lake_folder / "runs")
    DAMAGES["missing file"](filled_home, "runs")
    assert [(repair.table, repair.lost) for repair in repair_lake(filled_home)] == [("runs", None)]
    assert not (filled_home.lake_folder / "runs").exists()


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "folder", "garbage", "loop", "other id"])
@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_restores_the_manifest(damage: str, has_checkpoint: bool, filled_home: DataDir) -> None:
    home = filled_home
    lake = Lake(home.lake)
    lake.set_facet_order(FacetOrder.EVENT_TIME)
    manifest = read_manifest(home.lake)
    assert manifest is not None
    lake_file = home.checkpoint / "lake.json"
    lake_file.write_text(json.dumps({"id": manifest.id, "path": str(home.lake)}))
    write_refresh_state(lake, RefreshState.of(lake))
    path = home.lake_folder / "manifest.json"
    text = path.read_bytes()
    path.unlink()
    damages: dict[str, Callable[[], Any]] = {
        "missing": lambda: None,
        "empty": path.touch,
        "truncated": lambda: path.write_bytes(text[:-10]),
        "folder": path.mkdir,
        "garbage": lambda: path.write_bytes(b"\xff\x00" * 50),
        "loop": lambda: path.symlink_to(path),
        "other id": lambda: path.write_bytes(text.replace(str(manifest.id).encode(), b"x")),
    }
    damages[damage]()
    if not has_checkpoint:
        lake_file.unlink()
    restored = repair_manifest(home)
    assert (restored is None) == (damage == "other id" and not has_checkpoint)
    after = read_manifest(home.lake)
    assert after is not None
    assert (after.facet_order, set(after.tables)) == (FacetOrder.EVENT_TIME, set(manifest.tables))
    if has_checkpoint or damage == "truncated":
        assert after.id == manifest.id
    assert repair_manifest(home) is None
    assert repair_lake(home) == []


def test_no_manifest_is_written_without_a_lake(tmp_path: Path) -> None:
    assert repair_manifest(DataDir(tmp_path)) is None
    assert not any(tmp_path.iterdir())


def append_history(home: DataDir, number: int, rows: dict[str, int]) -> None:
    append_batch_record(
        home.checkpoint, BatchRecord("app", number, 0, 0.0, sum(rows.values()), 0, 0, rows, end_position(home.log))
    )


@pytest.mark.parametrize("table", ["lineage_events", "dataset_facets", "rejected_events"])
@pytest.mark.parametrize("has_log", [False, True])
@pytest.mark.parametrize("has_history", [False, True])
def test_repairs_a_table_without_its_last_commit(
    table: str, has_log: bool, has_history: bool, filled_home: DataDir
) -> None:
    expected = read_rows(filled_home)
    if has_history:
        append_history(filled_home, 1, {table: 1})
    assert repair_lake(filled_home) == []
    newest(filled_home, table, "_delta_log/*.json").unlink()
    if not has_log:
        shutil.rmtree(filled_home.log)
    message = f"{table} lacks batch 1: its last commit is missing(?s:.*)doctor --repair"
    with IndexWriter(filled_home.index, FacetOrder.RECEIVED) as index:
        if has_history:
            with pytest.raises(ClewError, match=message):
                check_consistency(filled_home, Lake(filled_home.lake), index)
    (repair,) = repair_lake(filled_home)
    assert (repair.table, repair.lost) == (table, None)
    assert read_rows(filled_home) == expected
    assert repair_lake(filled_home) == []


def flip_bits(path: Path, count: int) -> None:
    content, rng = bytearray(path.read_bytes()), Random(1)
    footer_bytes = int.from_bytes(content[-8:-4], "little")
    for _ in range(count):
        content[rng.randrange(4, len(content) - 8 - footer_bytes)] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


@pytest.mark.parametrize("count", [1, 30])
@pytest.mark.parametrize("table", ["lineage_events", "dataset_facets", "large_facets", "rejected_events"])
def test_repairs_damaged_pages(table: str, count: int, filled_home: DataDir) -> None:
    expected = read_rows(filled_home)
    path = newest(filled_home, table, "*.parquet")
    flip_bits(path, count)
    assert find_damage(filled_home.lake / table) is None
    damage = find_damage(filled_home.lake / table, CheckLevel.CONTENT)
    # One bit may be part of a page header, which is not covered by a checksum, and not change a value.
    assert count == 1 or (damage is not None and damage.files == (path.name,))
    repairs = [(repair.table, repair.lost) for repair in repair_lake(filled_home)]
    assert repairs == ([] if damage is None else [(table, None)])
    assert read_rows(filled_home) == expected


STATISTICS_DAMAGES = {
    "lowest value": ('\\"minValues\\": {\\"uuid\\": \\"', '\\"minValues\\": {\\"uuid\\": \\"~'),
    "no lowest values": ("minValues", "mInValues"),
    "no highest values": ("maxValues", "maxVclues"),
    "number of rows": ('\\"numRecords\\": ', '\\"numRecords\\": 1'),
}


@pytest.mark.parametrize("damage", STATISTICS_DAMAGES)
def test_repairs_statistics_in_a_commit(damage: str, filled_home: DataDir) -> None:
    expected, table = read_rows(filled_home), "run_facets"
    path = newest(filled_home, table, "_delta_log/*.json")
    before, after = STATISTICS_DAMAGES[damage]
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    # The rows are kept without the log.
    shutil.rmtree(filled_home.log)
    assert [(repair.table, repair.rows, repair.lost) for repair in repair_lake(filled_home)] == [
        (table, len(expected[table]), None)
    ]
    assert find_damage(filled_home.lake / table, CheckLevel.CONTENT) is None
    assert read_rows(filled_home) == expected


@pytest.mark.parametrize("pattern", ["_delta_log/*.json", "*.parquet"])
def test_a_flipped_bit_is_found_or_does_not_change_answers(pattern: str, filled_home: DataDir) -> None:
    table, rng = filled_home.lake_folder / "run_facets", Random(7)
    path = newest(filled_home, "run_facets", pattern)
    content, expected = path.read_bytes(), count_by_value(table)
    start = 0 if path.suffix == ".json" else len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    found = 0
    for _ in range(80):
        position = rng.randrange(start, len(content))
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 1 << rng.randrange(7)]) + content[position + 1 :]
        )
        if find_damage(table, CheckLevel.CONTENT) is None:
            assert count_by_value(table) == expected, position
        else:
            found += 1
    assert found > 0


def count_by_value(table: Path) -> dict[tuple[str, object], int]:
    """Count the rows with each value of some columns, with a filter."""
    dataset, counts = DeltaTable(table).to_pyarrow_dataset(), {}
    for name in ("uuid", "run_uuid", "seq", "name"):
        for value in dataset.to_table(columns=[name])[name].unique().to_pylist():
            counts[name, value] = dataset.count_rows(filter=pc.field(name) == value)
    return counts


def test_rejects_a_repair_while_a_pipeline_runs(filled_home: DataDir) -> None:
    with acquire_lock(filled_home.lake_folder / PIPELINE_LOCK), pytest.raises(LockedError):
        repair_lake(filled_home)
