"""Opening an index in PostgreSQL: what is missing, newer, of others or out of reach ends in a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from clew.data_dir import DatabaseUrl
from clew.errors import ClewError, UsageError
from clew.index.backends import open_backend
from clew.index.backends.postgres.connection import parse_schema_name
from clew.index.backends.sqlite import INDEX_FORMAT, MissingIndexError
from clew.index.changes import ChangeSet, JobRow
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter

JOB = JobRow("shop", "daily", first_event_at=1, last_event_at=1, first_seq=1, last_seq=1)

Execute = Callable[[str], Any]


@pytest.fixture
def index(postgres_places: Any) -> DatabaseUrl:
    place: DatabaseUrl = postgres_places.empty("store")
    return place


@pytest.fixture
def missing(postgres_places: Any) -> Iterator[DatabaseUrl]:
    place: DatabaseUrl = postgres_places.missing("none_yet")
    yield place
    open_backend(place).remove()


@pytest.fixture
def execute(postgres: str) -> Iterator[Execute]:
    """Run a statement as the owner of the server."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection.execute


def read(place: DatabaseUrl) -> None:
    IndexReader(place).close()


def write(place: DatabaseUrl) -> None:
    with IndexWriter(place):
        pass


def test_it_is_made_once_and_opened_again(missing: DatabaseUrl) -> None:
    with pytest.raises(MissingIndexError, match=r"no index at postgresql://.*none_yet.*\.\nRun `clew demo`"):
        read(missing)
    write(missing)
    with IndexReader(missing) as reader:
        identity = reader.meta("identity")
        assert reader.meta("format") == str(INDEX_FORMAT)
        assert reader.datasets() == []
    write(missing)
    with IndexReader(missing) as reader:
        assert reader.meta("identity") == identity


@pytest.mark.parametrize("use", [read, write])
@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("99", f"has format 99; this clew reads up to format {INDEX_FORMAT}.\nUpgrade: "),
        ("1", f"has the old format 1; this clew needs format {INDEX_FORMAT}.\nRun `clew index rebuild`."),
        ("new", "is not a clew index: its format is 'new'"),
    ],
)
def test_another_format_is_refused(
    missing: DatabaseUrl, execute: Execute, use: Callable[[DatabaseUrl], None], value: str, sentence: str
) -> None:
    write(missing)
    execute(f"update none_yet.meta set value = '{value}' where key = 'format'")
    with pytest.raises(ClewError, match=re.escape(sentence)):
        use(missing)


def test_a_schema_of_others_is_left_alone(missing: DatabaseUrl, execute: Execute) -> None:
    execute("create schema none_yet; create table none_yet.invoices (number integer)")
    with pytest.raises(ClewError, match=r"contains invoices, which is not part of the index\.\nUse .*schema=NAME"):
        write(missing)
    assert execute("select count(*) from none_yet.invoices").fetchone() == (0,)


def test_a_reader_cannot_write(index: DatabaseUrl) -> None:
    with IndexReader(index) as reader, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        reader.query("delete from meta")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "postgresql://me:secret@127.0.0.1:1/clew",
            "Cannot connect to the index .*: .*refused.*\nIs the server running",
        ),
        ("postgresql://me:secret@127.0.0.1:1/clew?schema=Clew", "'Clew' in postgresql://me@127.* is not a valid name"),
        ("postgresql://me:secret@[::1/clew", "index URL postgresql://me@.* is malformed"),
        ("postgresql://me:secret@127.0.0.1/clew?hots=x", "index URL postgresql://me@127.* is malformed"),
        ("postgresql://127.0.0.1:1/clew?password=secret", "Cannot connect to the index"),
    ],
)
def test_what_is_out_of_reach_is_told_without_the_password(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ClewError, match=sentence) as fault:
        read(DatabaseUrl(text, tmp_path))
    assert "secret" not in str(fault.value)


def test_a_malformed_url_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        parse_schema_name(DatabaseUrl("postgresql:///clew?schema=pg_catalog", tmp_path))


def test_who_has_no_rights_is_told_which(index: DatabaseUrl, missing: DatabaseUrl, execute: Execute) -> None:
    execute("drop role if exists guest; create role guest login")
    try:
        with pytest.raises(ClewError, match=r"Cannot write the index .*: permission denied .*\nA writer must own"):
            write(as_guest(missing))
        with pytest.raises(ClewError, match=r"Cannot read the index .*: permission denied .*\n.* a reader needs"):
            read(as_guest(index))
        schema = parse_schema_name(index)
        execute(f"grant usage on schema {schema} to guest; grant select on all tables in schema {schema} to guest")
        read(as_guest(index))
    finally:
        execute("drop owned by guest; drop role guest")


def as_guest(place: DatabaseUrl) -> DatabaseUrl:
    return DatabaseUrl(f"{place.text}&user=guest", place.folder)


def test_a_lost_connection_is_made_again(index: DatabaseUrl, execute: Execute) -> None:
    with IndexWriter(index) as sink, IndexReader(index) as reader:
        end_session(execute, reader)
        end_session(execute, sink)
        assert reader.datasets() == []
        sink.apply("app/0", ChangeSet(jobs=[JOB]))
        with reader.snapshot():
            assert reader.has_job("shop", "daily")
            end_session(execute, reader)
            with pytest.raises(ClewError, match=r"Cannot connect to the index .*: "):
                reader.has_job("shop", "daily")
        with reader.snapshot():
            assert reader.has_job("shop", "daily")


def test_a_batch_whose_connection_is_lost_leaves_nothing(index: DatabaseUrl, execute: Execute) -> None:
    def ended() -> Iterator[ChangeSet]:
        end_session(execute, sink)
        yield ChangeSet(jobs=[JOB])

    with IndexWriter(index) as sink:
        with pytest.raises(ClewError, match=r"Cannot write the index: .*\nThe batch was rolled back\."):
            sink.apply("app/0", ChangeSet(events=[(0, "e0")], jobs=[JOB]), ended())
        assert sink.event_count == 0
        sink.apply("app/0", ChangeSet(events=[(0, "e0")], jobs=[JOB]))
        assert sink.event_count == 1


def end_session(execute: Execute, user: IndexWriter | IndexReader) -> None:
    database: Any = user._database
    execute(f"select pg_terminate_backend({database.connection.info.backend_pid}, 5000)")
