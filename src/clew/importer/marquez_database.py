"""Connection to a Marquez database, its schema, and the plan to read its events.

`lineage_events` has no key. Rows are read in ranges of `created_at`, the time of receipt. Rows of older versions have
none; they are read first, in the order of their event time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.rows import tuple_row

from clew.data_dir import DatabaseUrl
from clew.errors import ClewError, UsageError

EVENTS: Final = "lineage_events"
_CONNECT_SECONDS: Final = "10"
# About 25 MB of events.
ROWS_PER_CHUNK: Final = 4_096
# A row can become visible some time after its `created_at`, the start of its transaction.
_MARGIN: Final = "interval '60 seconds'"
_RECEIVED, _OCCURRED = "created_at", "event_time"
_SETTINGS: Final = "set timezone = 'UTC'; set datestyle = 'ISO'; set statement_timeout = 0; set jit = off"
_ISO: Final = """to_char({} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')"""

Connection = psycopg.Connection[tuple[Any, ...]]
Schema = Mapping[str, frozenset[str]]


class RowRange(Struct, frozen=True):
    """Rows of a range of times, from `lower` up to, not including, `upper`."""

    number: int
    column: str
    lower: str
    upper: str
    rows: int


class EventPlan(Struct, frozen=True):
    """Chunks to read, the rows in all, and where the next import starts.

    Rows from `recent_from` on are read again by the next import.
    """

    chunks: tuple[RowRange, ...]
    recent_from: str | None

    @property
    def rows(self) -> int:
        """Rows of all chunks."""
        return sum(chunk.rows for chunk in self.chunks)


class ReadPosition(Struct, frozen=True):
    """Times up to which rows are imported: with, and without a time of receipt."""

    received: str | None = None
    occurred: str | None = None


class EventSample(NamedTuple):
    """Counts and some events, for a dry run."""

    rows: int
    bytes: int
    first: str | None
    last: str | None
    events: list[str]


def parse_database_url(text: str) -> DatabaseUrl:
    """Parse the URL of a Marquez database; also with the prefix of JDBC."""
    url = DatabaseUrl(text.removeprefix("jdbc:"), Path())
    try:
        parts = urlsplit(url.text)
        is_valid = parts.scheme in {"postgresql", "postgres"} and (parts.port is None or parts.port > 0)
    except ValueError:
        is_valid = False
    if not is_valid:
        hint = "Write it as postgresql://user:password@host:5432/marquez, and %40 for an @ in a name or a password."
        raise UsageError(f"The database URL {url} is malformed.", hint=hint)
    return url


@contextmanager
def connect_marquez(url: DatabaseUrl) -> Iterator[Connection]:
    """Connect to a database; errors are raised as ClewError without the password."""
    try:
        options = {"connect_timeout": _CONNECT_SECONDS, "application_name": "clew"}
        connection = psycopg.connect(url.text, autocommit=True, row_factory=tuple_row, **options)  # type: ignore[arg-type]
    except (psycopg.Error, UnicodeError) as error:
        hint = "Check host, port, database, user and password. PGPASSWORD sets the password without showing it."
        raise ClewError(f"Cannot connect to {url}: {_first_line(error)}.", hint=hint) from error
    with connection:
        try:
            connection.execute(_SETTINGS)
            yield connection
        except psycopg.Error as error:
            raise query_error(url, error) from error


def query_error(url: DatabaseUrl, error: psycopg.Error) -> ClewError:
    """Create the error of a failed query."""
    hint = "Run the command again: it continues after the events that are in the log."
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        hint = "Grant the user SELECT on all tables of Marquez."
    return ClewError(f"Reading {url} failed: {_first_line(error)}.", hint=hint)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # The last line is the attempt that counted: the first addresses of a host may be unreachable.
    fatal = [line for line in lines if "FATAL" in line]
    return (fatal or lines or [type(error).__name__])[-1 if fatal else 0].rstrip(".")


def read_schema(connection: Connection, url: DatabaseUrl) -> Schema:
    """Return the columns of all tables, after a check that Marquez's events are among them."""
    rows = connection.execute(
        "select table_name, array_agg(column_name::text) from information_schema.columns"
        " where table_schema = any(current_schemas(false)) group by 1"
    ).fetchall()
    schema = {table: frozenset(columns) for table, columns in rows}
    if EVENTS not in schema:
        tables = f"only {', '.join(sorted(schema)[:5])}" if schema else "and no other"
        hint = "Check the database name. Another schema is selected with ?options=-csearch_path%3Dname."
        raise UsageError(f"{url} is not a database of Marquez: it has no table {EVENTS}, {tables}.", hint=hint)
    missing = sorted({"event", _OCCURRED} - schema[EVENTS])
    if missing:
        message = f"The table {EVENTS} of {url} has no column {', '.join(missing)}: its version is not supported."
        raise ClewError(message, hint="Import over HTTP instead: clew import marquez http://host:5000/api/v1")
    return schema


def database_identity(connection: Connection) -> str:
    """Return a text that differs for another server, another database, and a restored one."""
    row = connection.execute(
        "select d.oid, d.datname, to_regclass('lineage_events')::oid from pg_database d"
        " where datname = current_database()"
    ).fetchone()
    info = connection.info
    return f"{info.host}:{info.port}/{row}"


def plan_events(connection: Connection, schema: Schema, position: ReadPosition) -> EventPlan:
    """Split the rows that are not imported yet into chunks."""
    chunks: list[RowRange] = []
    has_received = _RECEIVED in schema[EVENTS]
    condition = f"{_RECEIVED} is null" if has_received else "true"
    # Rows without a time of receipt arrive at any time in a schema without the column: all are read again.
    start = position.occurred if has_received else None
    chunks += _plan(connection, _OCCURRED, condition, start, 0)
    if not has_received:
        return EventPlan(tuple(chunks), None)
    chunks += _plan(connection, _RECEIVED, "true", position.received, len(chunks))
    newest = connection.execute(f"select (max({_RECEIVED}) - {_MARGIN})::text from {EVENTS}").fetchone()  # noqa: S608
    return EventPlan(tuple(chunks), None if newest is None else newest[0])


def _plan(connection: Connection, column: str, condition: str, start: str | None, first: int) -> Iterator[RowRange]:
    query = f"""with keys as (select {column} as key from {EVENTS}
            where {condition} and {column} is not null and {column} >= coalesce(%s::timestamptz, '-infinity')),
        numbered as (select key, row_number() over (order by key) as row from keys)
        select min(key)::text, (select (max(key) + interval '1 microsecond')::text from keys), min(row),
            (select count(*) from keys)
        from numbered where (row - 1) %% {ROWS_PER_CHUNK} = 0 group by key order by key"""  # noqa: S608
    starts = connection.execute(query, [start]).fetchall()
    for number, (lower, end, row, count) in enumerate(starts):
        upper, next_row = (
            (starts[number + 1][0], starts[number + 1][2]) if number + 1 < len(starts) else (end, count + 1)
        )
        yield RowRange(first + number, column, lower, upper, next_row - row)


def events_query(chunk: RowRange, schema_columns: frozenset[str]) -> sql.Composed:
    """Return the COPY statement of a chunk: time of receipt and event, in the order received."""
    is_older = chunk.column == _OCCURRED and _RECEIVED in schema_columns
    # The text is made after the sort, which is of row pointers for large events.
    template = f"""copy (select {_ISO.format(chunk.column)}, event::text from (
        select {chunk.column}, event from {EVENTS} where {chunk.column} >= {{lower}} and {chunk.column} < {{upper}}
        {f"and {_RECEIVED} is null" if is_older else ""} order by {chunk.column}, ctid offset 0) rows)
        to stdout (format binary)"""  # noqa: S608
    return sql.SQL(template).format(lower=sql.Literal(chunk.lower), upper=sql.Literal(chunk.upper))


def sample_events(connection: Connection, schema: Schema, count: int) -> EventSample:
    """Count the events and read the newest ones."""
    column = _RECEIVED if _RECEIVED in schema[EVENTS] else _OCCURRED
    summary = connection.execute(
        f"select count(*), coalesce(pg_table_size('{EVENTS}'), 0), min({_OCCURRED})::text, max({_OCCURRED})::text"  # noqa: S608
        f" from {EVENTS}"
    ).fetchone()
    rows = connection.execute(
        f"select event::text from {EVENTS} where event is not null order by {column} desc nulls last limit %s",  # noqa: S608
        [count],
    ).fetchall()
    assert summary is not None  # noqa: S101  # an aggregate has one row
    return EventSample(summary[0], summary[1], summary[2], summary[3], [text for (text,) in rows])


def count_rows(connection: Connection, schema: Schema, tables: Sequence[str]) -> dict[str, int]:
    """Count the rows of the tables that exist."""
    counts = {}
    for table in tables:
        if table in schema:
            row = connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier(table))).fetchone()
            counts[table] = 0 if row is None else int(row[0])
    return counts
