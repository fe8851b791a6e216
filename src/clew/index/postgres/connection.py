"""A connection to PostgreSQL that takes the statements of the index, and comes back when it was lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.pq import TransactionStatus
from psycopg.rows import RowFactory, tuple_row

from clew.errors import ClewError
from clew.home import DatabaseUrl
from clew.index.postgres.dialect import in_postgres
from clew.index.postgres.fitting import NUL, NUL_SHOWN
from clew.index.postgres.url import connection_text, malformed, schema_in
from clew.index.store import MissingIndexError

LEAST_VERSION: Final = 15
_CONNECT_SECONDS = 10
# Names are looked up anew in every statement. Whoever lets another index take this one's place waits for this lock,
# else a snapshot would end in tables that were empty when it was taken.
_BEGIN = "begin; lock table meta in access share mode"
_CHANGE = """select string_agg(value, ' ' order by key) from meta
where key in ('identity', 'indexed_at', 'indexed_seq', 'last_batch')"""
_REACH = "Is the server running, and are host, port, database, user and password right? Try the URL with psql."


class _NumberLoader(Loader):
    """Sums of integers are numeric to PostgreSQL, and integers to SQLite."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text else int(text)


class PostgresDatabase:
    """A connection in which every name is looked up in the schema of the index."""

    def __init__(
        self,
        url: DatabaseUrl,
        schema: str | None = None,
        settings: Sequence[str] = (),
        rows: RowFactory[Any] = tuple_row,
    ) -> None:
        self.url = url
        self.schema = schema or schema_in(url)
        self._settings = [f'set search_path to "{self.schema}"', *settings]
        self._rows = rows
        # How often it was opened: what a session keeps is gone with it.
        self.session = 0
        self._open()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction was begun that has not ended."""
        return self.connection.info.transaction_status not in {TransactionStatus.IDLE, TransactionStatus.UNKNOWN}

    def execute(self, query: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        """Run a statement."""
        return self._run(_BEGIN if query == "begin" else in_postgres(query), values, self._rows)

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> psycopg.Cursor[Any]:
        """Run a statement for each of several rows of values."""
        cursor = self.connection.cursor()
        cursor.executemany(in_postgres(query), rows)
        return cursor

    def plain(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """The rows of a query as tuples: of a million, names would cost more than values."""
        return iter(self._run(in_postgres(query), values, tuple_row))

    def change(self) -> object:
        """A value that is another one after every change by others."""
        return self._run(_CHANGE, (), tuple_row).fetchone()

    def script(self, statements: str) -> None:
        """Run several statements that are in PostgreSQL's words already."""
        self.connection.execute(statements)

    def close(self) -> None:
        """Let go of it."""
        self.connection.close()

    def _run(self, query: str, values: Sequence[Any], rows: RowFactory[Any]) -> psycopg.Cursor[Any]:
        is_within = self.in_transaction
        try:
            return self._ask(query, values, rows)
        except psycopg.Error as fault:
            if not is_within and self.in_transaction:
                self.connection.rollback()
            if isinstance(fault, psycopg.errors.UndefinedTable):
                raise MissingIndexError.at(self.url) from fault
            if not isinstance(fault, psycopg.OperationalError):
                raise
            if is_within or not self.connection.closed:
                raise unreachable(self.url, fault) from fault
        self._open()
        try:
            return self._ask(query, values, rows)
        except psycopg.OperationalError as fault:
            raise unreachable(self.url, fault) from fault

    def _ask(self, query: str, values: Sequence[Any], rows: RowFactory[Any]) -> psycopg.Cursor[Any]:
        known = [value.replace(NUL, NUL_SHOWN) if isinstance(value, str) else value for value in values]
        return self.connection.cursor(row_factory=rows).execute(query, known or None)

    def _open(self) -> None:
        self.connection = connect(self.url)
        self.session += 1
        try:
            for setting in self._settings:
                self.connection.execute(setting)
        except BaseException:
            self.connection.close()
            raise


def connect(url: DatabaseUrl) -> psycopg.Connection[Any]:
    """Connect to a server that is new enough; what is wrong is told without the password."""
    try:
        connection = psycopg.connect(
            connection_text(url, _CONNECT_SECONDS), autocommit=True, cursor_factory=psycopg.RawCursor
        )
    except psycopg.OperationalError as fault:
        raise unreachable(url, fault) from fault
    except psycopg.ProgrammingError as fault:
        raise malformed(url) from fault
    connection.adapters.register_loader("numeric", _NumberLoader)
    try:
        _require_server(url, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def unreachable(url: DatabaseUrl, fault: psycopg.Error) -> ClewError:
    """Say that a server does not answer, and what it or the system says."""
    return ClewError(f"The index {url} does not answer: {sentence_of(fault)}.", hint=_REACH)


def sentence_of(fault: psycopg.Error) -> str:
    """What went wrong, in one line."""
    told = fault.diag.message_primary or " ".join(str(fault).split()) or type(fault).__name__
    return told.removesuffix(".")


def _require_server(url: DatabaseUrl, connection: psycopg.Connection[Any]) -> None:
    version = connection.info.server_version // 10_000
    if version < LEAST_VERSION:
        message = f"The index {url} is on PostgreSQL {version}; clew needs {LEAST_VERSION} or newer."
        raise ClewError(message, hint="Upgrade the server, or name another one.")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        message = f"The database of the index {url} keeps text as {encoding}; names may be in any script."
        raise ClewError(message, hint="Create one with: createdb --encoding UTF8 --template template0 clew")
