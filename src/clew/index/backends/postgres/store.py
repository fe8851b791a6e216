"""PostgreSQL backend of the index: one schema per index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import RowFactory, tuple_row

from clew.data_dir import DatabaseUrl
from clew.errors import ClewError
from clew.index.backends.postgres.connection import (
    PostgresDatabase,
    database_error_message,
    named_rows,
    parse_schema_name,
)
from clew.index.backends.postgres.schema import create_schema, drop_indexes, has_schema, is_initialized
from clew.index.backends.postgres.writer import PostgresWriter
from clew.index.backends.sqlite import MissingIndexError

_MAX_TRIES = 100
_LOCK_TIMEOUT = ("set lock_timeout to 300",)
_BULK_LOAD_SETTINGS = "set synchronous_commit to off"
# Without JIT: compiling a view takes longer than the query.
_READER_SETTINGS = (
    "set default_transaction_read_only to on",
    "set default_transaction_isolation to 'repeatable read'",
    "set jit to off",
)
_PRIVILEGES_HINT = (
    "A writer must own the schema or have CREATE on the database; a reader needs USAGE on the schema and SELECT."
)


class PostgresBackend:
    """A PostgreSQL schema, by default `clew`."""

    def __init__(self, url: DatabaseUrl, schema: str | None = None) -> None:
        self.url = url
        self.schema = schema or parse_schema_name(url)

    def reader(self, busy_seconds: float) -> PostgresDatabase:
        lock_timeout = f"set lock_timeout to {int(busy_seconds * 1000)}"
        with self._connect("read", (*_READER_SETTINGS, lock_timeout), named_rows) as database:
            if not is_initialized(database):
                raise MissingIndexError.at(self.url)
        return database

    def writer(self) -> PostgresWriter:
        return self._writer()

    def bulk_writer(self) -> PostgresWriter:
        writer = self._writer(_BULK_LOAD_SETTINGS)
        drop_indexes(writer.database)
        return writer

    @contextmanager
    def staged(self) -> Iterator[PostgresBackend]:
        staging, old = (PostgresBackend(self.url, f"{self.schema}_{suffix}") for suffix in ("staging", "old"))
        staging.remove()
        try:
            yield staging
            old.remove()
            self._swap_in(staging, old)
            old.remove()
        finally:
            staging.remove()

    def remove(self) -> None:
        with self._connect("remove") as database:
            database.script(f'drop schema if exists "{self.schema}" cascade')
        database.close()

    def _swap_in(self, staging: PostgresBackend, old: PostgresBackend) -> None:
        """Rename the schemas, retrying with a short lock timeout so that readers are not blocked."""
        with self._connect("replace", _LOCK_TIMEOUT) as database:
            for tries_left in reversed(range(_MAX_TRIES)):
                try:
                    self._rename(database, staging, old)
                    break
                except psycopg.errors.LockNotAvailable:
                    # Queued readers run before the next try.
                    if not tries_left:
                        raise
        database.close()

    def _rename(self, database: PostgresDatabase, staging: PostgresBackend, old: PostgresBackend) -> None:
        with database.connection.transaction():
            if is_initialized(database):
                database.script("lock table meta in access exclusive mode")
            if has_schema(database):
                database.script(f'alter schema "{self.schema}" rename to "{old.schema}"')
            database.script(f'alter schema "{staging.schema}" rename to "{self.schema}"')

    def _writer(self, *settings: str) -> PostgresWriter:
        with self._connect("write", settings) as database:
            create_schema(database)
        return PostgresWriter(database)

    @contextmanager
    def _connect(
        self, action: str, settings: Sequence[str] = (), row_factory: RowFactory[Any] = tuple_row
    ) -> Iterator[PostgresDatabase]:
        """Yield a connection; close it and translate the error if it is unusable."""
        database = PostgresDatabase(self.url, self.schema, settings, row_factory)
        try:
            yield database
        except BaseException as error:
            database.close()
            if isinstance(error, psycopg.Error):
                message = f"Cannot {action} the index {self.url}: {database_error_message(error)}."
                raise ClewError(message, hint=_PRIVILEGES_HINT) from error
            raise
