"""Interfaces of the index backends, SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from clew.index.changes import ChangeSet, FacetsRow
from clew.index.merge_rules import MergeSpec
from clew.index.visibility import NameMask


class Row(Protocol):
    """A row with values by name or position."""

    def __getitem__(self, key: str | int, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def keys(self) -> list[str]:
        """Return the column names."""


class Rows(Protocol):
    """Result of a statement."""

    @property
    def rowcount(self) -> int:
        """Number of affected rows."""

    @property
    def description(self) -> Sequence[Any] | None:
        """Column descriptions; the name is the first item of each."""

    def fetchone(self) -> Any:
        """Return the next row, if any."""

    def fetchall(self) -> list[Any]:
        """Return all remaining rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection. Statements are in the SQL of SQLite, with parameters `?` or `?1`."""

    @property
    def in_transaction(self) -> bool:
        """True within a transaction."""

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Rows:
        """Run a statement."""

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> Rows:
        """Run a statement once per row of values."""

    def execute_tuples(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Return the rows of a query as plain tuples, which are cheaper than named rows."""

    def data_version(self) -> object:
        """Return a value that changes with every commit of another connection."""

    def limit_names(self, mask: NameMask) -> None:
        """Replace all tables by temporary views that show visible names only."""

    def close(self) -> None:
        """Close the connection."""


class BackendWriter(Protocol):
    """The single writer of an index."""

    @property
    def database(self) -> Database:
        """Connection for single statements."""

    def transaction(self) -> AbstractContextManager[None]:
        """Run a transaction; other writers wait."""

    def sanitized(self, changes: ChangeSet) -> ChangeSet:
        """Return the changes without values that the database cannot store."""

    def merge(self, table: str, spec: MergeSpec, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Merge rows with values in the order of `names` into a table; keys may repeat."""

    def upsert_facets(self, rows: Sequence[FacetsRow], merge: Callable[[bytes, bytes], bytes]) -> None:
        """Insert facet blobs; an existing blob is merged with the new one."""

    def create_indexes(self) -> None:
        """Create the indexes that a bulk writer omits."""

    def release_memory(self) -> None:
        """Release caches."""


class IndexBackend(Protocol):
    """An index location in a database."""

    def reader(self, busy_seconds: float) -> Database:
        """Open for reading; `busy_seconds` is the lock timeout."""

    def writer(self) -> BackendWriter:
        """Open for writing, and create missing tables."""

    def bulk_writer(self) -> BackendWriter:
        """Open for a bulk load, without secondary indexes and not crash-safe; call `create_indexes` at the end."""

    def staged(self) -> AbstractContextManager[IndexBackend]:
        """Yield a staging backend that replaces this index at the end; after an error this index is unchanged."""

    def remove(self) -> None:
        """Remove the index, if it exists. No writer may be open."""
