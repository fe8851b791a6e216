"""Tests of backup and restore without Spark: the cut between batches, checks, and files that disappear."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from clew.data_dir import DataDir
from clew.errors import ClewError, UsageError
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.streams import Stream
from clew.index.writer import IndexWriter
from clew.lake.lake import Lake
from clew.pipeline.backup import create_backup, read_backup, restore_backup
from clew.pipeline.checkpoint import Checkpoint, SourceOffset

APP_ID = "clew-app"
EVENTS, FACETS = "lineage_events", "run_facets"


def commit(home: DataDir, table: str, batch: int, app_id: str = APP_ID) -> None:
    """Commit a batch to one table, without rows."""
    path = home.lake_folder / table
    properties = CommitProperties(app_transactions=[Transaction(app_id, batch)])
    write_deltalake(path, _empty(path), mode="append", commit_properties=properties)


def _empty(path: Path) -> pa.Table:
    return pa.schema(DeltaTable(path).schema().to_arrow()).empty_table()


def batch_of(home: DataDir, table: str) -> int | None:
    return DeltaTable(home.lake_folder / table).transaction_version(APP_ID)


@pytest.fixture
def home(tmp_path: Path) -> DataDir:
    """Return a data directory with a log of three events; Spark has planned a batch for each."""
    home = DataDir(tmp_path / "home").create()
    Lake(home.lake).create_or_validate()
    checkpoint = Checkpoint(home.checkpoint)
    with LogWriter(home.log) as log:
        checkpoint.restart(SourceOffset(0))
        (home.checkpoint / "app").write_text(APP_ID)
        for number in range(3):
            log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b'{"number": %d}' % number)])
            checkpoint._write_offset(number, SourceOffset(log.position))
    checkpoint.record_reindex()
    with IndexWriter(home.index):
        pass
    (home.root / "keys.json").write_text("{}")
    (home.streams / "session").mkdir(parents=True)
    (home.streams / "session" / "lineage.jsonl").write_text("{}\n")
    return home


def test_the_lake_is_copied_as_of_the_last_complete_batch(home: DataDir, tmp_path: Path) -> None:
    for batch in (0, 1):
        commit(home, FACETS, batch)
        commit(home, EVENTS, batch)
    # Batch 2 is committed to one table only, which is then compacted.
    commit(home, FACETS, 2)
    commit(home, FACETS, 7, "another application")
    manifest = create_backup(home, tmp_path / "backup")
    restored = DataDir(tmp_path / "restored")
    restore_backup(tmp_path / "backup", restored)
    assert manifest.last_batch == 1
    assert (batch_of(home, FACETS), batch_of(restored, FACETS), batch_of(restored, EVENTS)) == (2, 1, 1)
    checkpoint, source = Checkpoint(restored.checkpoint), Checkpoint(home.checkpoint)
    assert checkpoint.stored_app_id == APP_ID
    assert (checkpoint.last_committed_batch, checkpoint.last_planned_batch) == (1, 1)
    assert checkpoint.committed_offset == source.batch_end_offset(1) == manifest.position
    assert checkpoint.find_damage() is None
    # All events are in the log, and the index does not have to be rebuilt.
    assert not checkpoint.must_reindex
    assert (restored.root / "keys.json").read_text() == "{}"
    assert (restored.streams / "session" / "lineage.jsonl").exists()
    for name in (home.log, restored.log):
        assert b"".join(path.read_bytes() for path in sorted(name.glob("*"))).count(b"number") == 3


def test_before_the_first_batch(home: DataDir, tmp_path: Path) -> None:
    commit(home, FACETS, 0)
    manifest = create_backup(home, tmp_path / "backup")
    restored = DataDir(tmp_path / "restored")
    restore_backup(tmp_path / "backup", restored)
    assert (manifest.last_batch, manifest.position) == (-1, 0)
    assert batch_of(restored, FACETS) is None
    checkpoint = Checkpoint(restored.checkpoint)
    assert (checkpoint.last_planned_batch, checkpoint.find_damage()) == (-1, None)


def test_without_a_lake(tmp_path: Path) -> None:
    home = DataDir(tmp_path / "home").create()
    with LogWriter(home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b"{}")])
    manifest = create_backup(home, tmp_path / "backup")
    assert not manifest.has_index
    restore_backup(tmp_path / "backup", DataDir(tmp_path / "restored"))
    assert list((tmp_path / "restored" / "log").iterdir())


def test_an_index_in_a_database_is_rebuilt(home: DataDir, tmp_path: Path) -> None:
    """It may have events that the copy of the lake lacks."""
    create_backup(DataDir(home.root, None, "postgresql://clew@db/clew"), tmp_path / "backup")
    assert Checkpoint(tmp_path / "backup" / "checkpoint").must_reindex
    assert not (tmp_path / "backup" / "index.sqlite").exists()


def test_the_index_is_copied_while_it_is_written(home: DataDir, tmp_path: Path) -> None:
    writer = sqlite3.connect(home.index_file)
    writer.execute("insert into meta values ('before', '1')")
    writer.commit()
    writer.execute("insert into meta values ('uncommitted', '1')")
    create_backup(home, tmp_path / "backup")
    writer.rollback()
    copy = sqlite3.connect(tmp_path / "backup" / "index.sqlite")
    assert dict(copy.execute("select key, value from meta where key in ('before', 'uncommitted')")) == {"before": "1"}


def test_a_file_that_is_deleted_meanwhile(home: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segment = home.log / "deleted"
    segment.write_text("expired")
    real = Path.rglob

    def rglob(self: Path, pattern: str) -> list[Path]:
        found = list(real(self, pattern))
        segment.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "rglob", rglob)
    assert "log/deleted" not in create_backup(home, tmp_path / "backup").files


def test_a_backup_that_was_interrupted_is_none(home: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.pipeline.backup._copy_table", lambda *_: (_ for _ in ()).throw(ClewError("Disk full.")))
    with pytest.raises(ClewError, match="Disk full"):
        create_backup(home, tmp_path / "backup")
    with pytest.raises(UsageError, match="is not a complete backup"):
        restore_backup(tmp_path / "backup", DataDir(tmp_path / "restored"))
    monkeypatch.undo()
    create_backup(home, tmp_path / "backup")
    assert not (tmp_path / "backup.partial").exists()


def test_usage_errors(home: DataDir, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    with pytest.raises(UsageError, match="There is no data directory"):
        create_backup(DataDir(tmp_path / "missing"), target)
    with pytest.raises(UsageError, match="is in the data directory"):
        create_backup(home, home.root / "backup")
    create_backup(home, target)
    with pytest.raises(UsageError, match="exists already"):
        create_backup(home, target)
    with pytest.raises(UsageError, match="is not empty"):
        restore_backup(target, home)
    with pytest.raises(UsageError, match="with its own lake and index"):
        restore_backup(target, DataDir(tmp_path / "new", tmp_path / "lake"))


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_damaged_backup_is_not_restored(damage: str, home: DataDir, tmp_path: Path) -> None:
    manifest = create_backup(home, tmp_path / "backup")
    name = next(name for name in manifest.files if name.endswith(".json") and "_delta_log" in name)
    path = tmp_path / "backup" / name
    path.unlink() if damage == "missing" else path.write_text("{")
    with pytest.raises(ClewError, match="is missing or has another size"):
        restore_backup(tmp_path / "backup", DataDir(tmp_path / "restored"))
    assert not (tmp_path / "restored").exists()


def test_the_manifest_describes_all_files(home: DataDir, tmp_path: Path) -> None:
    create_backup(home, tmp_path / "backup")
    manifest = read_backup(tmp_path / "backup")
    found = {str(path.relative_to(tmp_path / "backup")) for path in (tmp_path / "backup").rglob("*") if path.is_file()}
    assert found == {*manifest.files, "backup.json"}
    assert json.loads((tmp_path / "backup" / "backup.json").read_text())["tables"][EVENTS] == 0
