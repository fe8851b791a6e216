"""An index as a schema of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import RowFactory, tuple_row

from clew.errors import ClewError
from clew.home import DatabaseUrl
from clew.index.postgres.connection import PostgresDatabase, sentence_of
from clew.index.postgres.rows import named_rows
from clew.index.postgres.tables import drop_indexes, has_schema, is_made, make_tables
from clew.index.postgres.url import schema_in
from clew.index.postgres.writer import PostgresWriter
from clew.index.store import MissingIndexError

_TRIES = 100
_PATIENCE = ("set lock_timeout to 300",)
_IN_HASTE = "set synchronous_commit to off"
# Views that are asked for in milliseconds: compiling them takes longer than answering.
_READING = (
    "set default_transaction_read_only to on",
    "set default_transaction_isolation to 'repeatable read'",
    "set jit to off",
)
_RIGHTS = "Who writes owns the schema, or has the right CREATE on the database; who only reads needs USAGE and SELECT."


class PostgresStore:
    """A schema, `clew` unless the URL names another."""

    def __init__(self, url: DatabaseUrl, schema: str | None = None) -> None:
        self.url = url
        self.schema = schema or schema_in(url)

    def reader(self, busy_seconds: float) -> PostgresDatabase:
        """Open for reading; whoever holds it locked is waited for that long."""
        patience = f"set lock_timeout to {int(busy_seconds * 1000)}"
        with self._opened("read", (*_READING, patience), named_rows) as database:
            if not is_made(database):
                raise MissingIndexError.at(self.url)
        return database

    def writer(self) -> PostgresWriter:
        """Open for writing, making the tables where they are missing."""
        return self._writer()

    def builder(self) -> PostgresWriter:
        """Open for writing in haste; a crash may leave it broken. It lacks what `complete` makes."""
        writer = self._writer(_IN_HASTE)
        drop_indexes(writer.database)
        return writer

    @contextmanager
    def drafted(self) -> Iterator[PostgresStore]:
        """Where a new index is built. It takes this place at the end; whatever ends it early leaves the old one."""
        draft, old = (PostgresStore(self.url, f"{self.schema}_{what}") for what in ("draft", "old"))
        draft.remove()
        try:
            yield draft
            old.remove()
            self._give_way_to(draft, old)
            old.remove()
        finally:
            draft.remove()

    def remove(self) -> None:
        """Remove the index, if there is one. Not under a writer: it would go on writing."""
        with self._opened("removed") as database:
            database.script(f'drop schema if exists "{self.schema}" cascade')
        database.close()

    def _give_way_to(self, draft: PostgresStore, old: PostgresStore) -> None:
        """Wait until no one is in the middle of a question, and then be quick."""
        with self._opened("replaced", _PATIENCE) as database:
            for tries_left in reversed(range(_TRIES)):
                try:
                    self._rename(database, draft, old)
                    break
                except psycopg.errors.LockNotAvailable:
                    # Meanwhile those who came later have their turn.
                    if not tries_left:
                        raise
        database.close()

    def _rename(self, database: PostgresDatabase, draft: PostgresStore, old: PostgresStore) -> None:
        with database.connection.transaction():
            if is_made(database):
                database.script("lock table meta in access exclusive mode")
            if has_schema(database):
                database.script(f'alter schema "{self.schema}" rename to "{old.schema}"')
            database.script(f'alter schema "{draft.schema}" rename to "{self.schema}"')

    def _writer(self, *settings: str) -> PostgresWriter:
        with self._opened("written", settings) as database:
            make_tables(database)
        return PostgresWriter(database)

    @contextmanager
    def _opened(
        self, done: str, settings: Sequence[str] = (), rows: RowFactory[Any] = tuple_row
    ) -> Iterator[PostgresDatabase]:
        """A connection that is closed again if it turns out to be of no use."""
        database = PostgresDatabase(self.url, self.schema, settings, rows)
        try:
            yield database
        except BaseException as fault:
            database.close()
            if isinstance(fault, psycopg.Error):
                message = f"The index {self.url} cannot be {done}: {sentence_of(fault)}."
                raise ClewError(message, hint=_RIGHTS) from fault
            raise
