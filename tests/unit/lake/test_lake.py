"""Tests of the lake: a batch is committed once, and incompatible lakes are rejected."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from clew import __version__
from clew.errors import ClewError, UsageError
from clew.events.facets import FacetOrder
from clew.lake.data_files import DataFile, FileWriter
from clew.lake.lake import BatchId, Lake, MissingFileError, active_files, replace_files
from clew.lake.schemas import EVENT_TABLE_NAMES, LARGE_COLUMNS, REJECTED_EVENTS, SOURCE_TABLE_NAMES, TABLES_BY_NAME

NAME = "rejected_events"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    new_lake = Lake(tmp_path / "lake")
    new_lake.create_or_validate()
    return new_lake


def folder(lake: Lake) -> Path:
    return Path(str(lake.root))


def write_rows(lake: Lake, *row_ids: str, table: str = NAME) -> list[DataFile]:
    columns = {name: [None] * len(row_ids) for name in REJECTED_EVENTS.schema.names}
    rows = pa.RecordBatch.from_pydict({**columns, "event_id": list(row_ids)}, schema=REJECTED_EVENTS.schema)
    writer = FileWriter(str(lake.root), LARGE_COLUMNS)
    return [*writer.add({table: rows}), *writer.flush()]


def event_ids(lake: Lake, name: str = NAME) -> list[str]:
    table = Lake(lake.root).table(name)
    assert table is not None
    return sorted(table.to_pyarrow_table(columns=["event_id"])["event_id"].to_pylist())


def test_new_lake_has_all_event_tables_and_a_manifest(lake: Lake) -> None:
    assert lake.row_counts() == dict.fromkeys(EVENT_TABLE_NAMES, 0)
    manifest = json.loads((folder(lake) / "manifest.json").read_text())
    assert (manifest["format_version"], manifest["written_by"]) == (2, __version__)
    assert manifest["tables"] == list(SOURCE_TABLE_NAMES)
    assert manifest["facet_order"] == "received"
    lake.create_or_validate()
    assert json.loads((folder(lake) / "manifest.json").read_text()) == manifest, "the manifest must not change"


@pytest.mark.parametrize(
    ("damage", "found"), [(Path.unlink, "does not exist"), (lambda path: path.write_bytes(b"PAR1"), "has 4 bytes")]
)
def test_commits_no_file_that_is_missing_or_incomplete(
    lake: Lake, damage: Callable[[Path], object], found: str
) -> None:
    files = write_rows(lake, "a", table="run_facets") + write_rows(lake, "a")
    damage(folder(lake) / NAME / files[1].name)
    versions = {name: lake.require_table(name).version() for name in SOURCE_TABLE_NAMES}
    with pytest.raises(
        MissingFileError, match=f"{files[1].name} of the table {NAME} {found} in the lake .*{lake.root}"
    ):
        lake.append_tables([TABLES_BY_NAME["run_facets"], REJECTED_EVENTS], files, BatchId("app", 0))
    with pytest.raises(MissingFileError):
        lake.replace(NAME, REJECTED_EVENTS.schema, files[1:], BatchId("app", 0))
    with pytest.raises(MissingFileError):
        replace_files(lake, NAME, [], files[1:], is_data_change=True)
    assert {name: lake.require_table(name).version() for name in SOURCE_TABLE_NAMES} == versions


def test_files_of_a_machine_whose_clock_is_ahead_are_not_newer_than_their_commit(lake: Lake) -> None:
    ahead = [replace(file, written_ms=file.written_ms + 86_400_000) for file in write_rows(lake, "a")]
    lake.append(NAME, REJECTED_EVENTS.schema, ahead, BatchId("app", 0))
    assert active_files(lake.require_table(NAME))[0].written_ms <= time.time() * 1000


def test_same_batch_is_committed_once(lake: Lake) -> None:
    first, again = write_rows(lake, "a"), write_rows(lake, "a")
    assert lake.append(NAME, REJECTED_EVENTS.schema, first, BatchId("app", 0))
    assert not lake.append(NAME, REJECTED_EVENTS.schema, again, BatchId("app", 0))
    assert not Lake(lake.root).append(NAME, REJECTED_EVENTS.schema, again, BatchId("app", 0))
    lake.delete_uncommitted(again)
    assert event_ids(lake) == ["a"]
    assert [Path(path).name for path in lake.files(NAME)] == [first[0].name]
    assert len(list((folder(lake) / NAME).glob("*.parquet"))) == 1


def test_other_batches_and_applications_are_appended(lake: Lake) -> None:
    for identity, batch in (("a", BatchId("app", 0)), ("b", BatchId("app", 1)), ("c", BatchId("other", 0))):
        assert lake.append(NAME, REJECTED_EVENTS.schema, write_rows(lake, identity), batch)
    assert event_ids(lake) == ["a", "b", "c"]
    assert lake.row_counts()[NAME] == 3


def test_replace_creates_and_replaces_a_derived_table(lake: Lake) -> None:
    assert lake.table("runs") is None
    assert lake.files("runs") == []
    for number, identity in enumerate(("a", "b")):
        lake.replace(
            "runs", REJECTED_EVENTS.schema, write_rows(lake, identity, table="runs"), BatchId("derived", number)
        )
    assert event_ids(lake, "runs") == ["b"]
    assert lake.row_counts()["runs"] == 1


def test_statistics_are_readable_by_delta_lake(lake: Lake) -> None:
    for number, identity in enumerate(("a", "z")):
        lake.append(NAME, REJECTED_EVENTS.schema, write_rows(lake, identity), BatchId("app", number))
    rows = DeltaTable(str(lake.root / NAME)).to_pyarrow_dataset().to_table(columns=["event_id"])
    assert sorted(rows["event_id"].to_pylist()) == ["a", "z"]
    actions = pa.table(DeltaTable(str(lake.root / NAME)).get_add_actions(flatten=True))
    assert sorted(actions["min.event_id"].to_pylist()) == ["a", "z"]


def test_facet_order_of_a_lake_is_fixed(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.create_or_validate(FacetOrder.EVENT_TIME)
    lake.create_or_validate()
    lake.create_or_validate(FacetOrder.EVENT_TIME)
    assert lake.facet_order is FacetOrder.EVENT_TIME
    with pytest.raises(UsageError, match="by event time, not by time of receipt") as raised:
        lake.create_or_validate(FacetOrder.RECEIVED)
    assert "clew index rebuild --facet-order received" in str(raised.value)


def test_files_returns_unescaped_paths(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "a folder, 100% é")
    lake.create_or_validate()
    lake.append(NAME, REJECTED_EVENTS.schema, write_rows(lake, "a"), BatchId("app", 0))
    assert [Path(file).exists() for file in lake.files(NAME)] == [True]


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (
            '{"format_version": 3, "written_by": "9.9.9"}',
            r"has format 3, written by clew 9\.9\.9; clew .* reads format 2",
        ),
        ('{"format_version": 3}', "written by clew unknown"),
        ("", "is not a valid lake manifest"),
        ("[]", "is not a valid lake manifest"),
        ('{"format_version": 2, "facet_order": "none"}', "is not a valid lake manifest"),
        ('{"format_version": "new"}', "is not a valid lake manifest"),
    ],
)
def test_rejects_an_incompatible_lake_and_leaves_it_unchanged(lake: Lake, manifest: str, message: str) -> None:
    (folder(lake) / "manifest.json").write_text(manifest)
    before = {path: path.stat().st_mtime_ns for path in folder(lake).rglob("*")}
    with pytest.raises(ClewError, match=message):
        Lake(lake.root).create_or_validate()
    assert {path: path.stat().st_mtime_ns for path in folder(lake).rglob("*")} == before


def test_rejects_a_lake_of_format_1_and_names_the_command(lake: Lake) -> None:
    (folder(lake) / "manifest.json").unlink()
    (folder(lake) / "clew.json").write_text('{"format": 1, "written_by": "0.0.9", "id": "a"}')
    before = {path: path.stat().st_mtime_ns for path in folder(lake).rglob("*")}
    with pytest.raises(ClewError, match=r"has format 1, written by clew 0\.0\.9; clew .* reads format 2") as raised:
        Lake(lake.root).create_or_validate()
    assert "Events that are no longer in the log are lost" in str(raised.value)
    assert "`clew pipeline run`" in str(raised.value)
    assert {path: path.stat().st_mtime_ns for path in folder(lake).rglob("*")} == before


def test_reports_a_lake_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClewError, match=r"lake .* is not writable: Not a directory"):
        Lake(tmp_path / "file" / "lake").create_or_validate()


def test_interrupted_creation_is_resumed(tmp_path: Path) -> None:
    Lake(tmp_path).create_or_validate()
    (tmp_path / "manifest.json").unlink()
    Lake(tmp_path).create_or_validate()
    assert (tmp_path / "manifest.json").exists()
