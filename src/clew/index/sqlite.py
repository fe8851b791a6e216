"""SQLite backend of the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import astuple

from clew.index.changes import ChangeSet, FacetsRow
from clew.index.merging import MergeSpec
from clew.index.store import (
    SqliteDatabase,
    connect_bulk_writer,
    connect_reader,
    connect_writer,
    create_tables,
    remove_index,
    transaction,
)

_UPSERT_FACETS = """insert into facets as existing values (?, ?, ?, ?) on conflict (kind, entity_key) do update
set last_seq = max(existing.last_seq, excluded.last_seq), body = merge_blobs(existing.body, excluded.body)"""


class SqliteWriter:
    """Write row by row: SQLite has no round trips to save."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database

    def transaction(self) -> AbstractContextManager[None]:
        """Run a transaction; other writers wait."""
        return transaction(self.database)

    def sanitized(self, changes: ChangeSet) -> ChangeSet:
        """Return the changes unmodified: SQLite stores any string."""
        return changes

    def merge(self, table: str, spec: MergeSpec, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Merge rows with values in the order of `names` into a table; keys may repeat."""
        self.database.executemany(spec.upsert(table, names), rows)

    def upsert_facets(self, rows: Sequence[FacetsRow], merge: Callable[[bytes, bytes], bytes]) -> None:
        """Insert facet blobs; an existing blob is merged with the new one."""
        self.database.create_function("merge_blobs", 2, merge)
        self.database.executemany(_UPSERT_FACETS, map(astuple, rows))

    def create_indexes(self) -> None:
        """Create the indexes that a bulk writer omits."""
        create_tables(self.database)

    def release_memory(self) -> None:
        """Release the page cache."""
        self.database.execute("pragma shrink_memory")


class SqliteBackend:
    """A SQLite file with its WAL and shared-memory files."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def reader(self, busy_seconds: float) -> SqliteDatabase:
        """Open for reading; `busy_seconds` is the lock timeout."""
        return connect_reader(self.path, busy_seconds)

    def writer(self) -> SqliteWriter:
        """Open for writing, and create missing tables."""
        return SqliteWriter(connect_writer(self.path))

    def bulk_writer(self) -> SqliteWriter:
        """Open for a bulk load, without secondary indexes and not crash-safe; call `create_indexes` at the end."""
        return SqliteWriter(connect_bulk_writer(self.path))

    @contextmanager
    def staged(self) -> Iterator[SqliteBackend]:
        """Yield a staging backend that replaces this index at the end; after an error this index is unchanged."""
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

    def remove(self) -> None:
        """Remove the index, if it exists. No writer may be open."""
        remove_index(self.path)
