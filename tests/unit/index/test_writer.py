"""An index made in one go: there whole, with all its indexes, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.index.backends.sqlite import connect_reader, connect_writer
from clew.index.changes import ChangeSet, JobRow
from clew.index.writer import IndexWriter, build_and_swap

JOB = JobRow("shop", "daily", first_event_at=1, last_event_at=1, first_seq=1, last_seq=1)
OTHER = JobRow("shop", "nightly", first_event_at=1, last_event_at=1, first_seq=2, last_seq=2)


def jobs(path: Path) -> list[str]:
    database = connect_reader(path)
    try:
        return [row["name"] for row in database.execute("select name from jobs order by name")]
    finally:
        database.close()


def structure(path: Path) -> set[tuple[str, ...]]:
    database = connect_reader(path)
    try:
        return {tuple(row) for row in database.execute("select type, name from sqlite_master")}
    finally:
        database.close()


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "index.sqlite"
    with IndexWriter(path) as sink:
        sink.apply("app/0", ChangeSet(jobs=[JOB]))
    return path


def begin_a_draft(path: Path) -> None:
    with build_and_swap(path) as sink:
        sink.apply("rebuild/0", ChangeSet(jobs=[OTHER]))
        raise RuntimeError("no more")


def test_a_draft_replaces_the_index_when_it_is_whole(index: Path) -> None:
    with build_and_swap(index) as sink:
        sink.apply("rebuild/0", ChangeSet(jobs=[OTHER]))
        assert jobs(index) == ["daily"]
    assert jobs(index) == ["nightly"]
    assert [path.name for path in index.parent.iterdir() if "draft" in path.name] == []


def test_it_has_all_that_an_index_has(index: Path, tmp_path: Path) -> None:
    with build_and_swap(tmp_path / "new.sqlite") as sink:
        sink.apply("rebuild/0", ChangeSet(jobs=[JOB]))
    assert structure(tmp_path / "new.sqlite") == structure(index)
    writer = connect_writer(tmp_path / "new.sqlite")
    assert writer.execute("pragma journal_mode").fetchone()[0] == "wal"
    assert writer.execute("pragma integrity_check").fetchone()[0] == "ok"
    writer.close()


def test_a_draft_that_fails_leaves_the_index_as_it_was(index: Path) -> None:
    with pytest.raises(RuntimeError, match="no more"):
        begin_a_draft(index)
    assert jobs(index) == ["daily"]
    assert [path.name for path in index.parent.iterdir() if "draft" in path.name] == []


def test_what_an_interrupted_draft_left_is_not_taken_up(index: Path) -> None:
    with IndexWriter(index.with_name("index.sqlite.draft")) as left:
        left.apply("rebuild/0", ChangeSet(jobs=[JOB]))
    with build_and_swap(index) as sink:
        sink.apply("rebuild/0", ChangeSet(jobs=[OTHER]))
    assert jobs(index) == ["nightly"]
