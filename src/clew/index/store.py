"""The index as a SQLite file: one writer, many readers, always openable."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from clew.errors import ClewError
from clew.index.database import Database

INDEX_FORMAT: Final = 5
# A stream and a backfill may both write: one waits while the other's batch is being merged.
BUSY_SECONDS: Final = 60.0
# Larger than SQLite's own: a batch touches pages all over the file, and reads each again and again.
_PAGE_BYTES = 8 << 10
_CACHE_KIB = 64 << 10
_INDEXES = "select name from sqlite_master where type = 'index' and sql is not null"
_REBUILD = "Move it away and run `clew index rebuild`."
_SCHEMA = "schema.sql", "triggers.sql"


class MissingIndexError(ClewError):
    """Nothing was indexed yet."""

    @classmethod
    def at(cls, place: object) -> MissingIndexError:
        """Say where none is and how it comes to be."""
        hint = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`."
        return cls(f"There is no index at {place}.", hint=hint)


class SqliteDatabase(sqlite3.Connection):
    """A connection to a file."""

    def plain(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """The rows of a query as tuples: of a million, names would cost more than values."""
        cursor = self.cursor()
        cursor.row_factory = None
        return cursor.execute(query, values)

    def change(self) -> object:
        """A value that is another one after every change by others."""
        return self.execute("pragma data_version").fetchone()[0]


def connect_reader(path: Path, busy_seconds: float = BUSY_SECONDS) -> SqliteDatabase:
    """Open for reading; a missing or newer file is an error with a way out."""
    if not path.exists():
        raise MissingIndexError.at(path)
    with _opened(path, f"{path.absolute().as_uri()}?mode=ro", "read", busy_seconds) as connection:
        if not _is_made(connection, path):
            raise MissingIndexError.at(path)
        connection.row_factory = sqlite3.Row
    return connection


def connect_writer(path: Path) -> SqliteDatabase:
    """Open for writing, making the tables where they are missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise _refused(path, "written", fault.strerror) from fault
    with _opened(path, path.absolute().as_uri(), "written") as connection:
        _is_made(connection, path)
        # Counts only for a file that is made by this.
        connection.execute(f"pragma page_size = {_PAGE_BYTES}")
        connection.execute(f"pragma cache_size = -{_CACHE_KIB}")
        # WAL: readers go on while the pipeline writes. Synced: a batch counts as done once the index has it.
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        make_tables(connection)
    return connection


def make_tables(connection: sqlite3.Connection) -> None:
    """Make what is missing, in one transaction: an index is there whole or not at all."""
    schema = "".join(files("clew.index").joinpath(name).read_text() for name in _SCHEMA)
    # An index that was built anew has another identity, so that who keeps something beside it can tell.
    made = f"('format', '{INDEX_FORMAT}'), ('identity', lower(hex(randomblob(16))))"
    connection.executescript(f"begin immediate; {schema} insert or ignore into meta values {made}; commit;")  # noqa: S608


def connect_builder(path: Path) -> SqliteDatabase:
    """Open for writing in haste, without what keeps a file whole in a crash.

    Indexes cost less when they are made at the end: `make_tables` makes them.
    """
    connection = connect_writer(path)
    connection.execute("pragma journal_mode = off")
    connection.execute("pragma synchronous = off")
    for (name,) in connection.execute(_INDEXES).fetchall():
        connection.execute(f'drop index "{name}"')
    return connection


def dictionaries_in(connection: Database) -> dict[int, bytes]:
    """What facets are packed with, by id."""
    return {row[0]: row[1] for row in connection.execute("select id, body from dictionaries order by id")}


def remove(path: Path) -> None:
    """Remove an index with what SQLite keeps beside it. Not under a writer: it would go on writing."""
    for ending in ("", "-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that is written within, or nothing."""
    try:
        connection.execute("begin immediate")
        yield
        connection.execute("commit")
    except BaseException as fault:
        # A full disk has undone it already.
        if connection.in_transaction:
            connection.execute("rollback")
        if isinstance(fault, sqlite3.OperationalError):
            hint = "Nothing of this batch is in it. Mend the cause and run it again: it goes on where it stopped."
            raise ClewError(f"The index cannot be written: {fault}.", hint=hint) from fault
        raise


@contextmanager
def _opened(path: Path, uri: str, done: str, busy_seconds: float = BUSY_SECONDS) -> Iterator[SqliteDatabase]:
    """A connection that is closed again if it turns out to be unusable."""
    connection = None
    try:
        # Spark calls back on a thread of its own; calls never overlap.
        connection = sqlite3.connect(
            uri,
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=busy_seconds,
            factory=SqliteDatabase,
        )
        yield connection
    except BaseException as fault:
        if connection is not None:
            connection.close()
        if isinstance(fault, sqlite3.OperationalError):
            raise _refused(path, done, fault) from fault
        if isinstance(fault, sqlite3.DatabaseError):
            raise ClewError(f"{path} is no index of clew: {fault}.", hint=_REBUILD) from fault
        raise


def _refused(path: Path, done: str, reason: object) -> ClewError:
    hint = "Choose another folder with --home DIR or CLEW_HOME."
    return ClewError(f"The index {path} cannot be {done}: {reason}.", hint=hint)


def _is_made(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether anything was written yet. An index of another format than this program's is an error."""
    named = connection.execute("select count(*) from sqlite_master where name = 'meta'").fetchone()[0]
    found = connection.execute("select value from meta where key = 'format'").fetchone() if named else None
    if found is None:
        return False
    require_format(str(found[0]), path)
    return True


def require_format(found: str, place: object) -> None:
    """Refuse an index of another format than this program's."""
    if not found.isdecimal():
        raise ClewError(f"{place} is no index of clew: its format is {found!r}.", hint=_REBUILD)
    if int(found) < INDEX_FORMAT:
        message = f"The index {place} has the old format {found}; this clew has format {INDEX_FORMAT}."
        raise ClewError(message, hint="Run `clew index rebuild`.")
    if int(found) > INDEX_FORMAT:
        message = f"The index {place} has format {found}; this clew reads up to format {INDEX_FORMAT}."
        hint = "Upgrade: pip install -U clew, or move the index away and run `clew index rebuild`."
        raise ClewError(message, hint=hint)
