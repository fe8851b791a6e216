"""Opening an index: what is missing, newer or no index at all ends in a sentence."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from clew.errors import ClewError
from clew.index.backends.sqlite import INDEX_FORMAT, MissingIndexError, connect_reader, connect_writer, transaction
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


def test_it_is_made_once_and_opened_again(index: Path) -> None:
    connect_writer(index).close()
    with IndexReader(index) as reader:
        assert reader.meta("format") == str(INDEX_FORMAT)
        assert reader.meta("indexed_at") is None
        assert reader.datasets() == []


def test_a_relative_path_is_opened(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(index.parent)
    IndexReader(Path(index.name)).close()


def test_no_index_says_how_it_comes_to_be(tmp_path: Path) -> None:
    with pytest.raises(MissingIndexError, match=r"no index at .*index\.sqlite\.\nRun `clew demo`"):
        connect_reader(tmp_path / "index.sqlite")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_index_yet(tmp_path: Path) -> None:
    (tmp_path / "index.sqlite").touch()
    with pytest.raises(MissingIndexError):
        connect_reader(tmp_path / "index.sqlite")
    connect_writer(tmp_path / "index.sqlite").close()
    connect_reader(tmp_path / "index.sqlite").close()


@pytest.mark.parametrize("connect", [connect_reader, connect_writer])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("7", "has format 7; this clew reads up to format 6.\nUpgrade: "),
        ("1", "has the old format 1; this clew needs format 6.\nRun `clew index rebuild`."),
        ("new", "is not a clew index: its format is 'new'"),
    ],
)
def test_another_format_is_refused_and_left_alone(
    index: Path, connect: type[sqlite3.Connection], value: str, sentence: str
) -> None:
    set_format(index, value)
    before = index.read_bytes()
    with pytest.raises(ClewError, match=sentence):
        connect(index)
    assert index.read_bytes() == before


@pytest.mark.parametrize("connect", [connect_reader, connect_writer])
def test_another_file_is_refused(tmp_path: Path, connect: type[sqlite3.Connection]) -> None:
    path = tmp_path / "index.sqlite"
    path.write_bytes(b"These are no tables. " * 100)
    with pytest.raises(ClewError, match=r"is not a clew index: file is not a database"):
        connect(path)


@pytest.mark.parametrize(("connect", "action"), [(connect_reader, "read"), (connect_writer, "write")])
def test_a_folder_is_no_index(tmp_path: Path, connect: type[sqlite3.Connection], action: str) -> None:
    with pytest.raises(ClewError, match=f"Cannot {action} the index .*: "):
        connect(tmp_path)


def test_an_index_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClewError, match=r"Cannot write the index .*: (File exists|Not a directory)"):
        connect_writer(tmp_path / "file" / "deeper" / "index.sqlite")


def test_a_reader_cannot_write(index: Path) -> None:
    reader = connect_reader(index)
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.execute("delete from meta")
    reader.close()


def test_readers_see_whole_transactions(index: Path) -> None:
    writer, reader = connect_writer(index), connect_reader(index)
    count = "select count(*) from events"
    with transaction(writer):
        writer.execute("insert into events values (x'0a', 0)")
        assert reader.execute(count).fetchone()[0] == 0
    assert reader.execute(count).fetchone()[0] == 1
    with pytest.raises(sqlite3.IntegrityError), transaction(writer):
        writer.executemany("insert into events values (?, ?)", [(b"b", 0), (b"b", 1)])
    assert reader.execute(count).fetchone()[0] == 1
    reader.close()
    writer.close()
