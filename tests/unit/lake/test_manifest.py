"""Tests of the integrity check: an incomplete lake is rejected before anything is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from clew.errors import ClewError
from clew.lake.data_files import FileWriter
from clew.lake.lake import BatchId, Lake
from clew.lake.manifest import check_integrity
from clew.lake.schemas import LARGE_COLUMNS, REJECTED_EVENTS

NAME = "rejected_events"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a lake with one row and a derived table."""
    lake = Lake(tmp_path / "lake")
    lake.create_or_validate()
    for name in (NAME, "runs"):
        writer = FileWriter(str(lake.root), LARGE_COLUMNS)
        row = pa.RecordBatch.from_pylist([{"event_id": "a"}], schema=REJECTED_EVENTS.schema)
        lake.append(name, REJECTED_EVENTS.schema, [*writer.add({name: row}), *writer.flush()], BatchId("app", 0))
    return tmp_path / "lake"


def remove_file(table: str) -> Callable[[Path], object]:
    return lambda root: next((root / table).glob("*.parquet")).unlink()


def overwrite(pattern: str, content: bytes | None) -> Callable[[Path], object]:
    """Return a function that truncates a file of the table to half, or overwrites it."""

    def damage(root: Path) -> None:
        path = next((root / NAME).glob(pattern))
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] if content is None else content)

    return damage


def remove_commit(root: Path) -> None:
    lake = Lake(root)
    lake.append(NAME, REJECTED_EVENTS.schema, [], BatchId("app", 1))
    (root / NAME / "_delta_log" / f"{1:020}.json").unlink()


def remove_manifest_and_table(root: Path) -> None:
    (root / "manifest.json").unlink()
    shutil.rmtree(root / "lineage_events")


DAMAGE_CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing table": (
        lambda root: shutil.rmtree(root / "lineage_events"),
        r"has no table lineage_events\.\n.*doctor --repair",
    ),
    "missing _delta_log": (
        lambda root: shutil.rmtree(root / NAME / "_delta_log"),
        "has no folder _delta_log",
    ),
    "missing file": (remove_file(NAME), r"rejected_events lacks 1 of its 1 files, e\.g\. part-.*\.parquet"),
    "missing file of a derived table": (
        remove_file("runs"),
        r"runs lacks 1 of its 1 files.*\nDelete the folder .*runs",
    ),
    "missing manifest and table": (remove_manifest_and_table, "has no table lineage_events"),
    "empty file": (overwrite("*.parquet", b""), r"The file .*rejected_events/part-.*\.parquet is damaged\.\n.*doctor"),
    "truncated file": (overwrite("*.parquet", None), r"rejected_events/part-.*\.parquet is damaged"),
    "empty commit": (overwrite("_delta_log/*1.json", b""), r"rejected_events/_delta_log/0*1\.json is empty"),
    "truncated commit": (overwrite("_delta_log/*1.json", None), r"rejected_events/_delta_log/0*1\.json is damaged"),
    "binary commit": (overwrite("_delta_log/*1.json", b"\xff\0"), r"rejected_events/_delta_log/0*1\.json is damaged"),
    "missing commit": (remove_commit, r"the commit rejected_events/_delta_log/0*1\.json is missing"),
    "malformed commit": (
        lambda root: (root / NAME / "_delta_log" / f"{1:020}.json").write_text("{"),
        r"rejected_events cannot be read: ",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE_CASES.values(), ids=DAMAGE_CASES)
def test_rejects_a_damaged_lake_and_leaves_it_unchanged(
    damage: Callable[[Path], object], message: str, root: Path
) -> None:
    damage(root)
    before = sorted(root.rglob("*"))
    with pytest.raises(ClewError, match=message):
        Lake(root).create_or_validate()
    assert sorted(root.rglob("*")) == before
    with pytest.raises(ClewError):
        check_integrity(root)


def test_older_manifest_gets_an_id_and_new_tables(root: Path) -> None:
    shutil.rmtree(root / "lineage_events")
    (root / "manifest.json").write_text('{"format_version": 2, "written_by": "0.0.1"}')
    Lake(root).create_or_validate()
    manifest = json.loads((root / "manifest.json").read_text())
    assert manifest["id"]
    assert "lineage_events" in manifest["tables"]
    assert Lake(root).row_counts()["lineage_events"] == 0
    assert Lake(root).row_counts()[NAME] == 1


def test_interrupted_creation_is_completed(tmp_path: Path) -> None:
    Lake(tmp_path).create_or_validate()
    (tmp_path / "manifest.json").unlink()
    shutil.rmtree(tmp_path / "lineage_events")
    Lake(tmp_path).create_or_validate()
    check_integrity(tmp_path)
