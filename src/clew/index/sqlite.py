"""The index as a SQLite file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from clew.index.changes import Changes, FacetsRow
from clew.index.merging import Merge
from clew.index.store import (
    SqliteDatabase,
    connect_builder,
    connect_reader,
    connect_writer,
    make_tables,
    remove,
    transaction,
)

_PUT_FACETS = """insert into facets as known values (?, ?, ?, ?) on conflict (kind, entity) do update
set last_seq = max(known.last_seq, excluded.last_seq), body = merged(known.body, excluded.body)"""


class SqliteWriter:
    """Writes row by row: nothing lies between the program and the file."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database

    def transaction(self) -> AbstractContextManager[None]:
        """All that is written within, or nothing; whoever else writes waits."""
        return transaction(self.database)

    def fitted(self, changes: Changes) -> Changes:
        """The changes as they are: a file keeps any text."""
        return changes

    def merge(self, table: str, merge: Merge, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Merge rows of a batch into a table, their values in the order of `names`; several may be of one key."""
        self.database.executemany(merge.upsert(table, names), rows)

    def put_facets(self, rows: Sequence[FacetsRow], merged: Callable[[bytes, bytes], bytes]) -> None:
        """Put bodies of facets; one that is there is merged with what is said now."""
        self.database.create_function("merged", 2, merged)
        self.database.executemany(_PUT_FACETS, map(astuple, rows))

    def complete(self) -> None:
        """Make what a builder has left out."""
        make_tables(self.database)

    def let_go(self) -> None:
        """Give back the memory of pages that were read; they are read again when they are needed."""
        self.database.execute("pragma shrink_memory")


class SqliteStore:
    """A file, and what SQLite keeps beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def reader(self, busy_seconds: float) -> SqliteDatabase:
        """Open for reading; whoever holds it locked is waited for that long."""
        return connect_reader(self.path, busy_seconds)

    def writer(self) -> SqliteWriter:
        """Open for writing, making the tables where they are missing."""
        return SqliteWriter(connect_writer(self.path))

    def builder(self) -> SqliteWriter:
        """Open for writing in haste; a crash may leave it broken. It lacks what `complete` makes."""
        return SqliteWriter(connect_builder(self.path))

    @contextmanager
    def drafted(self) -> Iterator[SqliteStore]:
        """Where a new index is built. It takes this place at the end; whatever ends it early leaves the old one."""
        draft = SqliteStore(self.path.with_name(f"{self.path.name}.draft"))
        draft.remove()
        try:
            yield draft
            # Synced from here on, as every index is.
            connect_writer(draft.path).close()
            self.remove()
            draft.path.replace(self.path)
        finally:
            draft.remove()

    def remove(self) -> None:
        """Remove the index, if there is one. Not under a writer: it would go on writing."""
        remove(self.path)
