"""Tests of opening an index in PostgreSQL: missing, newer, foreign and unreachable ones give an error message."""

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
def index(postgres_schemas: Any) -> DatabaseUrl:
    location: DatabaseUrl = postgres_schemas.empty("store")
    return location


@pytest.fixture
def missing(postgres_schemas: Any) -> Iterator[DatabaseUrl]:
    location: DatabaseUrl = postgres_schemas.missing("none_yet")
    yield location
    open_backend(location).remove()


@pytest.fixture
def execute(postgres: str) -> Iterator[Execute]:
    """Yield a function that runs a statement as the owner of the server."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection.execute


def read(location: DatabaseUrl) -> None:
    IndexReader(location).close()


def write(location: DatabaseUrl) -> None:
    with IndexWriter(location):
        pass


def test_existing_index_is_reopened(missing: DatabaseUrl) -> None:
    with pytest.raises(MissingIndexError, match=r"no index at postgresql://.*none_yet.*\.\nRun `clew demo`"):
        read(missing)
    write(missing)
    with IndexReader(missing) as reader:
        identity = reader.meta("identity")
        assert reader.meta("format") == str(INDEX_FORMAT)
        assert reader.recent_names("dataset") == []
    write(missing)
    with IndexReader(missing) as reader:
        assert reader.meta("identity") == identity


@pytest.mark.parametrize("use", [read, write])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("99", f"has format 99; this clew reads up to format {INDEX_FORMAT}.\nUpgrade: "),
        ("1", f"has the old format 1; this clew needs format {INDEX_FORMAT}.\nRun `clew index rebuild`."),
        ("new", "is not a clew index: its format is 'new'"),
    ],
)
def test_rejects_another_format(
    missing: DatabaseUrl, execute: Execute, use: Callable[[DatabaseUrl], None], value: str, message: str
) -> None:
    write(missing)
    execute(f"update none_yet.meta set value = '{value}' where key = 'format'")
    with pytest.raises(ClewError, match=re.escape(message)):
        use(missing)


def test_rejects_a_schema_with_other_tables(missing: DatabaseUrl, execute: Execute) -> None:
    execute("create schema none_yet; create table none_yet.invoices (number integer)")
    with pytest.raises(ClewError, match=r"contains invoices, which is not part of the index\.\nUse .*schema=NAME"):
        write(missing)
    assert execute("select count(*) from none_yet.invoices").fetchone() == (0,)


def test_reader_is_read_only(index: DatabaseUrl) -> None:
    with IndexReader(index) as reader, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        reader.query("delete from meta")


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_connection_errors_do_not_contain_the_password(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ClewError, match=message) as error:
        read(DatabaseUrl(text, tmp_path))
    assert "secret" not in str(error.value)


def test_malformed_url_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        parse_schema_name(DatabaseUrl("postgresql:///clew?schema=pg_catalog", tmp_path))


def test_permission_errors_name_the_needed_rights(index: DatabaseUrl, missing: DatabaseUrl, execute: Execute) -> None:
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


def as_guest(location: DatabaseUrl) -> DatabaseUrl:
    return DatabaseUrl(f"{location.text}&user=guest", location.folder)


def test_lost_connection_is_reopened(index: DatabaseUrl, execute: Execute) -> None:
    with IndexWriter(index) as index_writer, IndexReader(index) as reader:
        terminate_session(execute, reader)
        terminate_session(execute, index_writer)
        assert reader.recent_names("dataset") == []
        index_writer.apply("app/0", ChangeSet(jobs=[JOB]))
        with reader.snapshot():
            assert reader.has_job("shop", "daily")
            terminate_session(execute, reader)
            with pytest.raises(ClewError, match=r"Cannot connect to the index .*: "):
                reader.has_job("shop", "daily")
        with reader.snapshot():
            assert reader.has_job("shop", "daily")


def test_batch_is_rolled_back_when_the_connection_is_lost(index: DatabaseUrl, execute: Execute) -> None:
    def spilled() -> Iterator[ChangeSet]:
        terminate_session(execute, index_writer)
        yield ChangeSet(jobs=[JOB])

    with IndexWriter(index) as index_writer:
        with pytest.raises(ClewError, match=r"Cannot write the index: .*\nThe batch was rolled back\."):
            index_writer.apply("app/0", ChangeSet(events=[(0, "e0")], jobs=[JOB]), spilled())
        assert index_writer.event_count == 0
        index_writer.apply("app/0", ChangeSet(events=[(0, "e0")], jobs=[JOB]))
        assert index_writer.event_count == 1


def terminate_session(execute: Execute, user: IndexWriter | IndexReader) -> None:
    database: Any = user._database
    execute(f"select pg_terminate_backend({database.connection.info.backend_pid}, 5000)")
