"""SQLite backend."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from msgspec.structs import astuple

from clew.data_dir import create_private_folder
from clew.errors import ClewError
from clew.index.backends.base import Database
from clew.index.changes import ChangeSet, FacetsRow
from clew.index.merge_rules import MergeSpec
from clew.index.visibility import NameMask, limited_views

INDEX_FORMAT: Final = 9
# A stream and a backfill may both write: one waits while the other merges a batch.
BUSY_SECONDS: Final = 60.0
# Larger than the defaults of SQLite: a batch reads pages all over the file, many of them repeatedly.
_PAGE_BYTES = 8 << 10
_CACHE_KIB = 64 << 10
_INDEXES = "select name from sqlite_master where type = 'index' and sql is not null"
_REBUILD = "Move it away and run `clew index rebuild`."
_SCHEMA = "schema.sql", "triggers.sql"
_MAX_NATIVE_PREFIXES = 32
_FILE_SUFFIXES = "", "-wal", "-shm"


class MissingIndexError(ClewError):
    """Raised if there is no index at a location."""

    @classmethod
    def at(cls, location: object) -> MissingIndexError:
        """Create with the location and a hint."""
        hint = "Run `clew demo`, or `clew run NOTEBOOK` and `clew pipeline run`."
        return cls(f"There is no index at {location}.", hint=hint)


class DamagedIndexError(ClewError):
    """Raised if a file cannot be read as an index."""

    @classmethod
    def of(cls, error: sqlite3.Error, location: object = "") -> DamagedIndexError:
        """Create from the error of a query."""
        hint = "Run `clew index rebuild`, or the pipeline: both rebuild it from the lake."
        return cls(f"The index {location} cannot be read: {error}.".replace("  ", " "), hint=hint)


class SqliteDatabase(sqlite3.Connection):
    """A connection to a SQLite file."""

    def execute_tuples(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        cursor = self.cursor()
        cursor.row_factory = None
        return cursor.execute(query, values)

    def data_version(self) -> object:
        return self.execute("pragma data_version").fetchone()[0]

    def limit_names(self, mask: NameMask) -> None:
        """Replace all tables by temporary views that show visible names only."""
        for name, arguments, function in (
            ("is_visible", 1, mask.is_visible),
            ("is_visible_io", 1, mask.is_visible_io),
            ("opaque_name", 2, mask.opaque_name),
            ("mask_names", 1, mask.mask_names),
        ):
            self.create_function(name, arguments, function, deterministic=True)
        schema = files("clew.index").joinpath(_SCHEMA[0]).read_text()
        # Of the functions, only this one is called for most rows.
        prefixes = [(len(prefix), prefix.replace("'", "''")) for prefix in mask.prefixes]
        has_native = 0 < len(prefixes) <= _MAX_NATIVE_PREFIXES and not any("\0" in prefix for _, prefix in prefixes)

        def is_visible(column: str) -> str:
            return "(" + " or ".join(f"substr({column}, 1, {size}) = '{text}'" for size, text in prefixes) + ")"

        for statement in limited_views(schema, self._columns_of, "main", is_visible=is_visible if has_native else None):
            self.execute(statement)

    def _columns_of(self, table: str) -> dict[str, str]:
        query = f"select name, type from main.pragma_table_info('{table}')"  # noqa: S608
        return {row[0]: row[1] for row in self.execute(query)}


def connect_reader(path: Path, busy_seconds: float = BUSY_SECONDS) -> SqliteDatabase:
    """Open for reading; ClewError if the file is missing or has another format."""
    if not path.exists():
        raise MissingIndexError.at(path)
    with _connect(path, f"{path.absolute().as_uri()}?mode=ro", "read", busy_seconds) as connection:
        if not _is_initialized(connection, path):
            raise MissingIndexError.at(path)
        connection.row_factory = sqlite3.Row
    return connection


def connect_writer(path: Path) -> SqliteDatabase:
    """Open for writing, and create missing tables."""
    try:
        create_private_folder(path.parent)
        path.touch(mode=0o600)
    except OSError as error:
        raise _access_error(path, "write", error.strerror) from error
    with _connect(path, path.absolute().as_uri(), "write") as connection:
        _is_initialized(connection, path)
        # Only effective for a new file.
        connection.execute(f"pragma page_size = {_PAGE_BYTES}")
        connection.execute(f"pragma cache_size = -{_CACHE_KIB}")
        # WAL: readers are not blocked by the writer. Full sync: a batch is committed once it is in the index.
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        create_tables(connection)
    return connection


def create_tables(connection: sqlite3.Connection) -> None:
    """Create missing tables in one transaction."""
    schema = "".join(files("clew.index").joinpath(name).read_text() for name in _SCHEMA)
    # A rebuilt index has a new identity, which invalidates caches of it.
    meta = f"('format', '{INDEX_FORMAT}'), ('identity', lower(hex(randomblob(16))))"
    connection.executescript(f"begin immediate; {schema} insert or ignore into meta values {meta}; commit;")  # noqa: S608


def read_dictionaries(connection: Database) -> dict[int, bytes]:
    """Return the zstd dictionaries by id."""
    return {row[0]: row[1] for row in connection.execute("select id, body from zstd_dictionaries order by id")}


@contextmanager
def _connect(path: Path, uri: str, action: str, busy_seconds: float = BUSY_SECONDS) -> Iterator[SqliteDatabase]:
    """Yield a connection; close it and translate the error if it is unusable."""
    connection = None
    try:
        # Spark calls back on another thread; calls never overlap.
        connection = sqlite3.connect(
            uri,
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=busy_seconds,
            factory=SqliteDatabase,
        )
        yield connection
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.OperationalError):
            raise _access_error(path, action, error) from error
        if isinstance(error, sqlite3.DatabaseError):
            raise DamagedIndexError.of(error, path) from error
        raise


def _access_error(path: Path, action: str, reason: object) -> ClewError:
    hint = "Choose another folder with --home DIR or CLEW_HOME."
    return ClewError(f"Cannot {action} the index {path}: {reason}.", hint=hint)


def _is_initialized(connection: sqlite3.Connection, path: Path) -> bool:
    """Return True if the tables exist; ClewError if the index has another format."""
    has_meta = connection.execute("select count(*) from sqlite_master where name = 'meta'").fetchone()[0]
    row = connection.execute("select value from meta where key = 'format'").fetchone() if has_meta else None
    if row is None:
        return False
    check_format(str(row[0]), path)
    return True


def check_format(index_format: str, location: object) -> None:
    """Raise ClewError if an index has another format than `INDEX_FORMAT`."""
    if not index_format.isdecimal():
        raise ClewError(f"{location} is not a clew index: its format is {index_format!r}.", hint=_REBUILD)
    if int(index_format) < INDEX_FORMAT:
        message = f"The index {location} has the old format {index_format}; this clew needs format {INDEX_FORMAT}."
        raise ClewError(message, hint="Run `clew index rebuild`.")
    if int(index_format) > INDEX_FORMAT:
        message = f"The index {location} has format {index_format}; this clew reads up to format {INDEX_FORMAT}."
        hint = "Upgrade: pip install -U clew, or move the index away and run `clew index rebuild`."
        raise ClewError(message, hint=hint)


_UPSERT_FACETS = """insert into facets as existing values (?, ?, ?, ?) on conflict (kind, entity_key) do update
set last_seq = max(existing.last_seq, excluded.last_seq), body = merge_blobs(existing.body, excluded.body)"""


class SqliteWriter:
    """Write row by row: SQLite has no round trips to save."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            self.database.execute("begin immediate")
            yield
            self.database.execute("commit")
        except BaseException as error:
            # SQLite rolls back by itself when the disk is full.
            if self.database.in_transaction:
                self.database.execute("rollback")
            if isinstance(error, sqlite3.OperationalError):
                hint = "The batch was rolled back. Fix the cause and run it again: it continues where it stopped."
                raise ClewError(f"Cannot write the index: {error}.", hint=hint) from error
            raise

    def sanitized(self, changes: ChangeSet) -> ChangeSet:
        """Return the changes unmodified: SQLite stores any string."""
        return changes

    def merge(self, table: str, spec: MergeSpec, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self.database.executemany(spec.upsert(table, names), rows)

    def upsert_facets(self, rows: Sequence[FacetsRow], merge: Callable[[bytes, bytes], bytes]) -> None:
        self.database.create_function("merge_blobs", 2, merge)
        self.database.executemany(_UPSERT_FACETS, map(astuple, rows))

    def create_indexes(self) -> None:
        create_tables(self.database)

    def release_memory(self) -> None:
        """Release the page cache."""
        self.database.execute("pragma shrink_memory")


class SqliteBackend:
    """A SQLite file with its WAL and shared-memory files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def reader(self, busy_seconds: float) -> SqliteDatabase:
        return connect_reader(self.path, busy_seconds)

    def writer(self) -> SqliteWriter:
        return SqliteWriter(connect_writer(self.path))

    def bulk_writer(self) -> SqliteWriter:
        connection = connect_writer(self.path)
        connection.execute("pragma journal_mode = off")
        connection.execute("pragma synchronous = off")
        # Cheaper to create at the end.
        for (name,) in connection.execute(_INDEXES).fetchall():
            connection.execute(f'drop index "{name}"')
        return SqliteWriter(connection)

    @contextmanager
    def staged(self) -> Iterator[SqliteBackend]:
        staging = SqliteBackend(self.path.with_name(f"{self.path.name}.staging"))
        staging.remove()
        try:
            yield staging
            # Restores WAL mode and full sync.
            connect_writer(staging.path).close()
            self.remove()
            staging.path.replace(self.path)
        finally:
            staging.remove()

    def find_damage(self) -> str | None:
        """Check the structure of the file; return the first error."""
        if self.path.is_dir():
            return f"{self.path} is a folder"
        try:
            with _connect(self.path, f"{self.path.absolute().as_uri()}?mode=ro", "read") as connection:
                (result,) = connection.execute("pragma quick_check(1)").fetchone()
                connection.close()
        except DamagedIndexError as error:
            return error.message
        # The first line names the database.
        return None if result == "ok" else str(result).splitlines()[-1]

    def set_aside(self) -> Path:
        """Rename the index, so that a new one is built; return the new path."""
        target = self.path.with_name(f"{self.path.name}.damaged")
        for suffix in _FILE_SUFFIXES:
            file = self.path.with_name(self.path.name + suffix)
            if file.exists():
                file.replace(target.with_name(target.name + suffix))
        return target

    def remove(self) -> None:
        for suffix in _FILE_SUFFIXES:
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
