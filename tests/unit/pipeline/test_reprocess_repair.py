"""Tests of the repair of damaged tables."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from clew.collector.file_import import guess_stream
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.segments import end_position
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.lake.lake import Lake
from clew.lake.manifest import check_integrity
from clew.lake.schemas import EVENT_TABLE_NAMES
from clew.pipeline.checkpoint import Checkpoint
from clew.pipeline.ingest import IngestStats
from clew.pipeline.locks import PIPELINE_LOCK, LockedError, acquire_lock
from clew.pipeline.reprocess import repair_lake

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
@pytest.mark.parametrize("is_committed", [False, True])
def test_an_interrupted_repair_is_repeated(
    damage: str, is_committed: bool, filled_home: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read_rows(filled_home)
    DAMAGES[damage](filled_home, "dataset_facets")

    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("clew.lake.lake.shutil.rmtree" if is_committed else "clew.lake.lake.Lake._commit", interrupt)
        with pytest.raises(KeyboardInterrupt):
            repair_lake(filled_home)
    with pytest.raises(ClewError, match=r"repair of the table .*dataset_facets was interrupted"):
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


def test_rejects_a_repair_while_a_pipeline_runs(filled_home: DataDir) -> None:
    with acquire_lock(filled_home.lake_folder / PIPELINE_LOCK), pytest.raises(LockedError):
        repair_lake(filled_home)
