"""Connection to PostgreSQL: URL, rows, value sanitizing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from operator import attrgetter
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import psycopg
from msgspec import Struct
from psycopg import Cursor
from psycopg.adapt import Buffer, Loader
from psycopg.pq import TransactionStatus
from psycopg.rows import RowFactory, tuple_row

from clew.data_dir import DatabaseUrl
from clew.errors import ClewError, UsageError
from clew.index.backends.postgres.dialect import schema_to_postgres, to_postgres
from clew.index.backends.sqlite import MissingIndexError
from clew.index.changes import ChangeSet
from clew.index.encoding import KEY_SEPARATOR
from clew.index.visibility import HIDDEN_NAMESPACE, NameMask, limited_views

DEFAULT_SCHEMA: Final = "clew"
# Leaves room for suffixes: PostgreSQL truncates names to 63 bytes.
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


def parse_schema_name(url: DatabaseUrl) -> str:
    """Return the schema in the `?schema=` parameter of a URL."""
    try:
        name = dict(parse_qsl(urlsplit(url.text).query)).get("schema", DEFAULT_SCHEMA)
    except ValueError as error:
        raise malformed_url_error(url) from error
    if not _SCHEMA.fullmatch(name) or name.startswith("pg_"):
        hint = "Use up to 40 lower-case letters, digits and underscores."
        raise UsageError(f"The schema {name!r} in {url} is not a valid name.", hint=hint)
    return name


def malformed_url_error(url: DatabaseUrl) -> UsageError:
    """Create the error for a malformed URL."""
    hint = "Write it as postgresql://user@host:5432/database, and %40 for an @ in a name or a password."
    return UsageError(f"The index URL {url} is malformed.", hint=hint)


def libpq_url(url: DatabaseUrl, seconds: int) -> str:
    """Return the URL for libpq: without `schema`, with a connection timeout and the application name."""
    parts = urlsplit(url.text)
    options = {name: value for name, value in parse_qsl(parts.query) if name != "schema"}
    options.setdefault("connect_timeout", str(seconds))
    options.setdefault("application_name", "clew")
    return urlunsplit(parts._replace(query=urlencode(options)))


class NamedRow(tuple[Any, ...]):
    """A tuple with column names."""

    __slots__ = ()
    positions: Mapping[str, int]

    def __getitem__(self, key: Any) -> Any:
        return tuple.__getitem__(self, self.positions[key] if isinstance(key, str) else key)

    def keys(self) -> list[str]:
        return list(self.positions)


def named_rows(cursor: Cursor[Any]) -> Callable[[Sequence[Any]], NamedRow]:
    """Row factory of psycopg for `NamedRow`."""
    names = [column.name for column in cursor.description or ()]
    return type("Row", (NamedRow,), {"positions": {name: position for position, name in enumerate(names)}})


# An index entry has at most 2,704 bytes and up to five names.
MAX_NAME_BYTES: Final = 500
_HEAD_BYTES = 400
_DIGEST = 32
# UTF-8 has at most four bytes per character.
_SAFE_LENGTH = MAX_NAME_BYTES // 4

NUL: Final = "\x00"
NUL_REPLACEMENT: Final = "\ufffd"
_NUL_IN_JSON = "\\u0000"
_IS_NAME = re.compile(r"(^|_)(asserted_by|column|id|name|namespace|state|uuid|version)$")
_JSON_LISTS = {"identifiers", "upstream"}


def sanitize_changes(changes: ChangeSet) -> ChangeSet:
    """Sanitize all strings of the changes in place; equal names are truncated to equal names in all columns."""
    is_changed = False
    for table in ChangeSet.__struct_fields__:
        rows = getattr(changes, table)
        if rows and isinstance(rows[0], Struct):
            for column, type_ in type(rows[0]).__annotations__.items():
                if type_.startswith("str"):
                    is_changed |= _sanitize_column(rows, column)
    if is_changed:
        # Recomputed from the sanitized names.
        for run in changes.runs:
            run.job_version = None
    return changes


def sanitize_name(text: str) -> str:
    """Return the name without NUL; a name that is too long is truncated, followed by a hash of the full name."""
    name = text.replace(NUL, NUL_REPLACEMENT)
    if len(name) <= _SAFE_LENGTH or len(encoded := name.encode()) <= MAX_NAME_BYTES:
        return name
    digest = sha256(encoded).hexdigest()[:_DIGEST]
    return f"{encoded[:_HEAD_BYTES].decode(errors='ignore')}…{digest}"


def _sanitizer_for(column: str) -> Callable[[str], str]:
    if column == "entity_key":
        return _sanitize_key
    if column in _JSON_LISTS:
        return _sanitize_json_list
    return sanitize_name if _IS_NAME.search(column) else _replace_nul


def _sanitize_column(rows: Sequence[Struct], column: str) -> bool:
    """Sanitize a column; returns True if a value may have changed."""
    # Usually all strings are short, and checking them together is much faster.
    strings = list(filter(None, map(attrgetter(column), rows)))
    joined = "".join(strings)
    if max(map(len, strings), default=0) <= _SAFE_LENGTH and NUL not in joined and _NUL_IN_JSON not in joined:
        return False
    sanitize = _sanitizer_for(column)
    for row in rows:
        value = getattr(row, column)
        if value is not None:
            setattr(row, column, sanitize(value))
    return True


def _sanitize_key(text: str) -> str:
    return KEY_SEPARATOR.join(map(sanitize_name, text.split(KEY_SEPARATOR)))


def _replace_nul(text: str) -> str:
    return text.replace(NUL, NUL_REPLACEMENT)


def _sanitize_json_list(text: str) -> str:
    return json.dumps(_sanitize_value(json.loads(text)))


def _sanitize_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_sanitize_value(item) for item in value]
    return sanitize_name(value) if isinstance(value, str) else value


MIN_SERVER_VERSION: Final = 15
_CONNECT_SECONDS = 10
# Every statement resolves table names again. The swap of a rebuilt index waits for this lock: otherwise a snapshot
# could continue in new tables that were empty at its start.
_BEGIN = "begin; lock table meta in access share mode"
# Of a limited connection: fails if the views were dropped with the tables of an index that was replaced.
_LOCK_VIEWS = "lock table pg_temp.meta in access share mode"
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
        self._mask: NameMask | None = None
        self._open()

    @property
    def in_transaction(self) -> bool:
        return self.connection.info.transaction_status not in {TransactionStatus.IDLE, TransactionStatus.UNKNOWN}

    def execute(self, query: str, values: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        begin = _BEGIN if self._mask is None else f"begin; {_LOCK_VIEWS}"
        return self._run(begin if query == "begin" else to_postgres(query), values, self._row_factory)

    def executemany(self, query: str, rows: Iterable[Sequence[Any]], /) -> psycopg.Cursor[Any]:
        cursor = self.connection.cursor()
        cursor.executemany(to_postgres(query), rows)
        return cursor

    def execute_tuples(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        return iter(self._run(to_postgres(query), values, tuple_row))

    def data_version(self) -> object:
        return self._run(_DATA_VERSION, (), tuple_row).fetchone()

    def limit_names(self, mask: NameMask) -> None:
        """Replace all tables by temporary views that show visible names only."""
        self._mask = mask
        self._create_limited_views(mask)

    def script(self, statements: str) -> None:
        """Run several statements in the SQL of PostgreSQL."""
        self.connection.execute(statements)

    def close(self) -> None:
        self.connection.close()

    def _run(self, query: str, values: Sequence[Any], row_factory: RowFactory[Any]) -> psycopg.Cursor[Any]:
        was_in_transaction = self.in_transaction
        try:
            return self._execute(query, values, row_factory)
        except psycopg.Error as error:
            if not was_in_transaction and self.in_transaction:
                self.connection.rollback()
            has_no_views = self._mask is not None and isinstance(error, psycopg.errors.UndefinedTable)
            if isinstance(error, psycopg.errors.UndefinedTable) and (was_in_transaction or not has_no_views):
                raise MissingIndexError.at(self.url) from error
            if not has_no_views and not isinstance(error, psycopg.OperationalError):
                raise
            if was_in_transaction or not (has_no_views or self.connection.closed):
                raise connection_error(self.url, error) from error
            self.connection.close()
        self._open()
        try:
            return self._execute(query, values, row_factory)
        except psycopg.OperationalError as error:
            raise connection_error(self.url, error) from error

    def _execute(self, query: str, values: Sequence[Any], row_factory: RowFactory[Any]) -> psycopg.Cursor[Any]:
        parameters = [value.replace(NUL, NUL_REPLACEMENT) if isinstance(value, str) else value for value in values]
        cursor = self.connection.cursor(row_factory=row_factory)
        if self._mask is None or self.in_transaction or query.startswith("begin;"):
            return cursor.execute(query, parameters or None)
        with self.connection.transaction():
            self.connection.execute(_LOCK_VIEWS)
            return cursor.execute(query, parameters or None)

    def _open(self) -> None:
        self.connection = connect(self.url)
        self.session += 1
        try:
            for setting in self._settings:
                self.connection.execute(setting)
            if self._mask is not None:
                self._create_limited_views(self._mask)
        except BaseException:
            self.connection.close()
            raise

    def _create_limited_views(self, mask: NameMask) -> None:
        schema = files("clew.index").joinpath("schema.sql").read_text()
        prefixes = ", ".join(_literal(prefix) for prefix in mask.prefixes)
        functions = files("clew.index.backends.postgres").joinpath("visibility.sql").read_text()
        self.connection.execute("set default_transaction_read_only to off")
        self.connection.execute(
            functions.replace("$PREFIXES$", prefixes)
            .replace("$SECRET$", _literal(mask.secret))
            .replace("$HIDDEN$", _literal(HIDDEN_NAMESPACE))
        )
        for statement in limited_views(schema, self._columns_of, f'"{self.schema}"', "pg_temp."):
            self.connection.execute(schema_to_postgres(statement))
        self.connection.execute("set default_transaction_read_only to on")

    def _columns_of(self, table: str) -> dict[str, str]:
        query = """select attname from pg_attribute where attrelid = to_regclass($1) and attnum > 0
        and not attisdropped order by attnum"""
        # Without types: PostgreSQL needs no casts.
        return {row[0]: "" for row in self.connection.execute(query, (f'"{self.schema}".{table}',))}


def _literal(text: str) -> str:
    return "'" + text.replace(NUL, NUL_REPLACEMENT).replace("'", "''") + "'"


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
