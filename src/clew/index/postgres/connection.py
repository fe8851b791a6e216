"""Connection to PostgreSQL that translates the SQL of the index and reconnects when it was lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.pq import TransactionStatus
from psycopg.rows import RowFactory, tuple_row

from clew.errors import ClewError
from clew.home import DatabaseUrl
from clew.index.postgres.dialect import to_postgres
from clew.index.postgres.fitting import NUL, NUL_REPLACEMENT
from clew.index.postgres.url import libpq_url, malformed_url_error, parse_schema_name
from clew.index.store import MissingIndexError

MIN_SERVER_VERSION: Final = 15
_CONNECT_SECONDS = 10
# Every statement resolves table names again. The swap of a rebuilt index waits for this lock: otherwise a snapshot
# could continue in new tables that were empty at its start.
_BEGIN = "begin; lock table meta in access share mode"
_DATA_VERSION = """select string_agg(value, ' ' order by key) from meta
where key in ('identity', 'indexed_at', 'indexed_seq', 'last_batch')"""
_CONNECTION_HINT = (
    "Is the server running, and are host, port, database, user and password right? Try the URL with psql."
)


class _NumberLoader(Loader):
    """Load numeric as int: sums of integers are numeric in PostgreSQL and integers in SQLite."""

    def load(self, data: Buffer) -> int | float:
        text = bytes(data)
        return float(text) if b"." in text else int(text)


class PostgresDatabase:
    """A connection with the schema of the index as search path."""

    def __init__(
        self,
        url: DatabaseUrl,
        schema: str | None = None,
        settings: Sequence[str] = (),
        row_factory: RowFactory[Any] = tuple_row,
    ) -> None:
        self.url = url
        self.schema = schema or parse_schema_name(url)
        self._settings = [f'set search_path to "{self.schema}"', *settings]
        self._row_factory = row_factory
        # Number of connects; temporary tables are lost with each of them.
        self.session = 0
        self._open()

    @property
    def in_transaction(self) -> bool:
        """True within a transaction."""
        return self.connection.info.transaction_status not in {TransactionStatus.IDLE, TransactionStatus.UNKNOWN}

    def execute(self, query: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        """Run a statement."""
        return self._run(_BEGIN if query == "begin" else to_postgres(query), values, self._row_factory)

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> psycopg.Cursor[Any]:
        """Run a statement once per row of values."""
        cursor = self.connection.cursor()
        cursor.executemany(to_postgres(query), rows)
        return cursor

    def execute_tuples(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """Return the rows of a query as plain tuples, which are cheaper than named rows."""
        return iter(self._run(to_postgres(query), values, tuple_row))

    def data_version(self) -> object:
        """Return a value that changes with every commit of another connection."""
        return self._run(_DATA_VERSION, (), tuple_row).fetchone()

    def script(self, statements: str) -> None:
        """Run several statements in the SQL of PostgreSQL."""
        self.connection.execute(statements)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def _run(self, query: str, values: Sequence[Any], row_factory: RowFactory[Any]) -> psycopg.Cursor[Any]:
        was_in_transaction = self.in_transaction
        try:
            return self._execute(query, values, row_factory)
        except psycopg.Error as error:
            if not was_in_transaction and self.in_transaction:
                self.connection.rollback()
            if isinstance(error, psycopg.errors.UndefinedTable):
                raise MissingIndexError.at(self.url) from error
            if not isinstance(error, psycopg.OperationalError):
                raise
            if was_in_transaction or not self.connection.closed:
                raise connection_error(self.url, error) from error
        self._open()
        try:
            return self._execute(query, values, row_factory)
        except psycopg.OperationalError as error:
            raise connection_error(self.url, error) from error

    def _execute(self, query: str, values: Sequence[Any], row_factory: RowFactory[Any]) -> psycopg.Cursor[Any]:
        parameters = [value.replace(NUL, NUL_REPLACEMENT) if isinstance(value, str) else value for value in values]
        return self.connection.cursor(row_factory=row_factory).execute(query, parameters or None)

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
    """Connect and check the server version; error messages do not contain the password."""
    try:
        connection = psycopg.connect(
            libpq_url(url, _CONNECT_SECONDS), autocommit=True, cursor_factory=psycopg.RawCursor
        )
    except psycopg.OperationalError as error:
        raise connection_error(url, error) from error
    except psycopg.ProgrammingError as error:
        raise malformed_url_error(url) from error
    connection.adapters.register_loader("numeric", _NumberLoader)
    try:
        _check_server(url, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def connection_error(url: DatabaseUrl, error: psycopg.Error) -> ClewError:
    """Create the error for a failed connection."""
    return ClewError(f"Cannot connect to the index {url}: {database_error_message(error)}.", hint=_CONNECTION_HINT)


def database_error_message(error: psycopg.Error) -> str:
    """Return the message of an error in one line."""
    message = error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
    return message.removesuffix(".")


def _check_server(url: DatabaseUrl, connection: psycopg.Connection[Any]) -> None:
    version = connection.info.server_version // 10_000
    if version < MIN_SERVER_VERSION:
        message = f"The index {url} is on PostgreSQL {version}; clew needs {MIN_SERVER_VERSION} or newer."
        raise ClewError(message, hint="Upgrade the server, or use another one.")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        message = f"The database of the index {url} has the encoding {encoding}; clew needs UTF8."
        raise ClewError(message, hint="Create one with: createdb --encoding UTF8 --template template0 clew")
