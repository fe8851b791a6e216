"""Creation and checks of the PostgreSQL schema of an index."""

from __future__ import annotations

import secrets
from importlib.resources import files

from clew.errors import ClewError
from clew.index.backends.postgres.connection import PostgresDatabase
from clew.index.backends.postgres.dialect import schema_to_postgres
from clew.index.backends.sqlite import INDEX_FORMAT, check_format

_LOCK = "select pg_advisory_xact_lock(hashtextextended('clew index ' || $1, 0))"
_SCHEMA = "select 1 from pg_namespace where nspname = $1"
_META = "select 1 from pg_tables where schemaname = $1 and tablename = 'meta'"
_INSERT_META = "insert into meta values ('format', $1), ('identity', $2) on conflict do nothing"
_FOREIGN_TABLE = """select relname from pg_class where relnamespace = to_regnamespace($1)
and relkind in ('r', 'p', 'v', 'm', 'f') limit 1"""
_INDEXES = """select indexrelid::regclass::text from pg_index join pg_class on pg_class.oid = indrelid
where relnamespace = to_regnamespace($1) and not indisprimary and relkind = 'r'"""


def hold_lock(database: PostgresDatabase) -> None:
    """Wait for the write lock of the index, and hold it until the end of the transaction."""
    database.execute(_LOCK, (database.schema,)).fetchone()


def has_schema(database: PostgresDatabase) -> bool:
    """Return True if the schema exists."""
    return database.execute(_SCHEMA, (database.schema,)).fetchone() is not None


def is_initialized(database: PostgresDatabase) -> bool:
    """Return True if the tables exist; ClewError if the index has another format."""
    if database.execute(_META, (database.schema,)).fetchone() is None:
        return False
    # Qualified: the search path skips a schema without USAGE privilege.
    query = f"""select value from "{database.schema}".meta where key = 'format'"""  # noqa: S608
    row = database.execute(query).fetchone()
    if row is None:
        return False
    check_format(str(row[0]), database.url)
    return True


def create_schema(database: PostgresDatabase) -> None:
    """Create the schema and its tables in one transaction, unless they exist."""
    with database.connection.transaction():
        hold_lock(database)
        if not is_initialized(database):
            _require_no_foreign_tables(database)
            database.script(f'create schema if not exists "{database.schema}"')
            create_missing_tables(database)
            database.execute(_INSERT_META, (str(INDEX_FORMAT), secrets.token_hex(16)))


def create_missing_tables(database: PostgresDatabase) -> None:
    """Create missing functions, tables, views and indexes."""
    package = files("clew.index.backends.postgres")
    database.script(package.joinpath("functions.sql").read_text())
    database.script(schema_to_postgres(files("clew.index").joinpath("schema.sql").read_text()))
    database.script(package.joinpath("additions.sql").read_text())


def drop_indexes(database: PostgresDatabase) -> None:
    """Drop secondary indexes, which `create_missing_tables` creates at the end of a bulk load at less cost."""
    for (name,) in database.execute(_INDEXES, (database.schema,)).fetchall():
        database.script(f"drop index {name}")


def _require_no_foreign_tables(database: PostgresDatabase) -> None:
    """Raise ClewError if the schema has other tables: a rebuild drops the whole schema."""
    row = database.execute(_FOREIGN_TABLE, (database.schema,)).fetchone()
    if row is not None:
        message = f"The schema {database.schema} of {database.url} contains {row[0]}, which is not part of the index."
        raise ClewError(message, hint="Use a separate schema for the index: add ?schema=NAME to the URL.")
