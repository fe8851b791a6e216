"""What the index asks of the database that it lives in, be it SQLite or PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from clew.index.changes import Changes, FacetsRow
from clew.index.merging import Merge


class Row(Protocol):
    """A row whose values are had by name, or by place."""

    def __getitem__(self, key: str | int, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def keys(self) -> list[str]:
        """The names of the values."""


class Rows(Protocol):
    """What a statement gives: rows, and how many it touched."""

    @property
    def rowcount(self) -> int:
        """How many rows it touched."""

    @property
    def description(self) -> Sequence[Any] | None:
        """The columns of the rows, the name of each first."""

    def fetchone(self) -> Any:
        """The next row, if there is one."""

    def fetchall(self) -> list[Any]:
        """All rows that are left."""

    def __iter__(self) -> Iterator[Any]: ...


class Database(Protocol):
    """A connection. Statements are written as SQLite knows them, their values marked by `?` or `?1`."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun that has not ended."""

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Rows:
        """Run a statement."""

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> Rows:
        """Run a statement for each of several rows of values."""

    def plain(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """The rows of a query as tuples: of a million, names would cost more than values."""

    def change(self) -> object:
        """A value that is another one after every change by others."""

    def close(self) -> None:
        """Let go of it."""


class Writer(Protocol):
    """A connection that writes an index, the only one at a time."""

    @property
    def database(self) -> Database:
        """Where single statements go to."""

    def transaction(self) -> AbstractContextManager[None]:
        """All that is written within, or nothing; whoever else writes waits."""

    def fitted(self, changes: Changes) -> Changes:
        """The changes with nothing in them that the database cannot keep."""

    def merge(self, table: str, merge: Merge, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Merge rows of a batch into a table, their values in the order of `names`; several may be of one key."""

    def put_facets(self, rows: Sequence[FacetsRow], merged: Callable[[bytes, bytes], bytes]) -> None:
        """Put bodies of facets; one that is there is merged with what is said now."""

    def complete(self) -> None:
        """Make what a builder has left out."""

    def let_go(self) -> None:
        """Give back memory that can be had again."""


class Store(Protocol):
    """A place where an index is, or will be."""

    def reader(self, busy_seconds: float) -> Database:
        """Open for reading; whoever holds it locked is waited for that long."""

    def writer(self) -> Writer:
        """Open for writing, making the tables where they are missing."""

    def builder(self) -> Writer:
        """Open for writing in haste; a crash may leave it broken. It lacks what `complete` makes."""

    def drafted(self) -> AbstractContextManager[Store]:
        """Where a new index is built. It takes this place at the end; whatever ends it early leaves the old one."""

    def remove(self) -> None:
        """Remove the index, if there is one. Not under a writer: it would go on writing."""
