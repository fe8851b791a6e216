"""Tests of opening an index in SQLite: missing, newer and invalid files give an error message."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from clew.errors import ClewError
from clew.index.backends.sqlite import INDEX_FORMAT, MissingIndexError, SqliteWriter, connect_reader, connect_writer
from clew.index.queries.reader import IndexReader


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "with ? and #" / "index.sqlite"
    connect_writer(path).close()
    return path


def set_format(path: Path, value: str) -> None:
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("update meta set value = ? where key = 'format'", (value,))
    connection.close()


def test_existing_index_is_reopened(index: Path) -> None:
    connect_writer(index).close()
    with IndexReader(index) as reader:
        assert reader.meta("format") == str(INDEX_FORMAT)
        assert reader.meta("indexed_at") is None
        assert reader.recent_names("dataset") == []


def test_opens_a_relative_path(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(index.parent)
    IndexReader(Path(index.name)).close()


def test_missing_index_error_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(MissingIndexError, match=r"no index at .*index\.sqlite\.\nRun `clew demo`"):
        connect_reader(tmp_path / "index.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_empty_file_is_a_missing_index(tmp_path: Path) -> None:
    (tmp_path / "index.sqlite").touch()
    with pytest.raises(MissingIndexError):
        connect_reader(tmp_path / "index.sqlite")
    connect_writer(tmp_path / "index.sqlite").close()
    connect_reader(tmp_path / "index.sqlite").close()


@pytest.mark.parametrize("connect", [connect_reader, connect_writer])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            str(INDEX_FORMAT + 1),
            f"has format {INDEX_FORMAT + 1}; this clew reads up to format {INDEX_FORMAT}.\nUpgrade: ",
        ),
        ("1", f"has the old format 1; this clew needs format {INDEX_FORMAT}.\nRun `clew index rebuild`."),
        ("new", "is not a clew index: its format is 'new'"),
    ],
)
def test_rejects_another_format_and_leaves_the_file_unchanged(
    index: Path, connect: type[sqlite3.Connection], value: str, message: str
) -> None:
    set_format(index, value)
    before = index.read_bytes()
    with pytest.raises(ClewError, match=message):
        connect(index)
    assert index.read_bytes() == before


@pytest.mark.parametrize("connect", [connect_reader, connect_writer])
def test_rejects_a_file_that_is_not_a_database(tmp_path: Path, connect: type[sqlite3.Connection]) -> None:
    path = tmp_path / "index.sqlite"
    path.write_bytes(b"These are no tables. " * 100)
    with pytest.raises(ClewError, match=r"cannot be read: file is not a database"):
        connect(path)


@pytest.mark.parametrize(("connect", "action"), [(connect_reader, "read"), (connect_writer, "write")])
def test_rejects_a_folder(tmp_path: Path, connect: type[sqlite3.Connection], action: str) -> None:
    with pytest.raises(ClewError, match=f"Cannot {action} the index .*: "):
        connect(tmp_path)


def test_reports_an_index_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClewError, match=r"Cannot write the index .*: (File exists|Not a directory)"):
        connect_writer(tmp_path / "file" / "deeper" / "index.sqlite")


def test_reader_is_read_only(index: Path) -> None:
    reader = connect_reader(index)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("delete from meta")
    reader.close()


def test_reader_sees_only_committed_transactions(index: Path) -> None:
    writer, reader = connect_writer(index), connect_reader(index)
    count = "select count(*) from events"
    with SqliteWriter(writer).transaction():
        writer.execute("insert into events values (x'0a', 0)")
        assert reader.execute(count).fetchone()[0] == 0
    assert reader.execute(count).fetchone()[0] == 1
    with pytest.raises(sqlite3.IntegrityError), SqliteWriter(writer).transaction():
        writer.executemany("insert into events values (?, ?)", [(b"b", 0), (b"b", 1)])
    assert reader.execute(count).fetchone()[0] == 1
    reader.close()
    writer.close()
