"""Tests of IndexWriter and build_and_swap: an index is replaced completely or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.index.backends.sqlite import connect_reader, connect_writer
from clew.index.changes import ChangeSet, JobRow
from clew.index.writer import IndexWriter, build_and_swap

JOB = JobRow("shop", "daily", first_event_at=1, last_event_at=1, first_seq=1, last_seq=1)
OTHER = JobRow("shop", "nightly", first_event_at=1, last_event_at=1, first_seq=2, last_seq=2)


def job_names(path: Path) -> list[str]:
    database = connect_reader(path)
    try:
        return [row["name"] for row in database.execute("select name from jobs order by name")]
    finally:
        database.close()


def schema_objects(path: Path) -> set[tuple[str, ...]]:
    database = connect_reader(path)
    try:
        return {tuple(row) for row in database.execute("select type, name from sqlite_master")}
    finally:
        database.close()


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "index.sqlite"
    with IndexWriter(path) as index_writer:
        index_writer.apply("app/0", ChangeSet(jobs=[JOB]))
    return path


def build_and_fail(path: Path) -> None:
    with build_and_swap(path) as index_writer:
        index_writer.apply("rebuild/0", ChangeSet(jobs=[OTHER]))
        raise RuntimeError("no more")


def test_build_and_swap_replaces_the_index_on_success(index: Path) -> None:
    with build_and_swap(index) as index_writer:
        index_writer.apply("rebuild/0", ChangeSet(jobs=[OTHER]))
        assert job_names(index) == ["daily"]
    assert job_names(index) == ["nightly"]
    assert [path.name for path in index.parent.iterdir() if "draft" in path.name] == []


def test_build_and_swap_creates_all_schema_objects(index: Path, tmp_path: Path) -> None:
    with build_and_swap(tmp_path / "new.sqlite") as index_writer:
        index_writer.apply("rebuild/0", ChangeSet(jobs=[JOB]))
    assert schema_objects(tmp_path / "new.sqlite") == schema_objects(index)
    writer = connect_writer(tmp_path / "new.sqlite")
    assert writer.execute("pragma journal_mode").fetchone()[0] == "wal"
    assert writer.execute("pragma integrity_check").fetchone()[0] == "ok"
    writer.close()


def test_failed_build_leaves_the_index_unchanged(index: Path) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        build_and_fail(index)
    assert job_names(index) == ["daily"]
    assert [path.name for path in index.parent.iterdir() if "draft" in path.name] == []


def test_leftover_of_an_interrupted_build_is_discarded(index: Path) -> None:
    with IndexWriter(index.with_name("index.sqlite.draft")) as leftover:
        leftover.apply("rebuild/0", ChangeSet(jobs=[JOB]))
    with build_and_swap(index) as index_writer:
        index_writer.apply("rebuild/0", ChangeSet(jobs=[OTHER]))
    assert job_names(index) == ["nightly"]


def test_keeps_the_newest_batches_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.index.writer._MAX_BATCHES", 3)
    with IndexWriter(tmp_path / "index.sqlite") as index_writer:
        for number in range(10):
            index_writer.apply(f"app/{number}", ChangeSet(jobs=[JOB]))
    database = connect_reader(tmp_path / "index.sqlite")
    names = [row[0] for row in database.execute("select name from batches order by number")]
    database.close()
    assert names == ["app/7", "app/8", "app/9"]
