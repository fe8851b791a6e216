"""The schema of an index: making it, looking whether it is there, and letting one take the place of another."""

from __future__ import annotations

import secrets
from importlib.resources import files

from clew.errors import ClewError
from clew.index.postgres.connection import PostgresDatabase
from clew.index.postgres.dialect import schema_in_postgres
from clew.index.store import INDEX_FORMAT, require_format

_LOCK = "select pg_advisory_xact_lock(hashtextextended('clew index ' || $1, 0))"
_SCHEMA = "select 1 from pg_namespace where nspname = $1"
_META = "select 1 from pg_tables where schemaname = $1 and tablename = 'meta'"
_MADE = "insert into meta values ('format', $1), ('identity', $2) on conflict do nothing"
_OTHERS = """select relname from pg_class where relnamespace = to_regnamespace($1)
and relkind in ('r', 'p', 'v', 'm', 'f') limit 1"""
_INDEXES = """select indexrelid::regclass::text from pg_index join pg_class on pg_class.oid = indrelid
where relnamespace = to_regnamespace($1) and not indisprimary and relkind = 'r'"""


def hold_lock(database: PostgresDatabase) -> None:
    """Wait until no one else writes this index; until the end of the transaction no one else will."""
    database.execute(_LOCK, (database.schema,)).fetchone()


def has_schema(database: PostgresDatabase) -> bool:
    """Whether the schema of the connection is there."""
    return database.execute(_SCHEMA, (database.schema,)).fetchone() is not None


def is_made(database: PostgresDatabase) -> bool:
    """Whether anything was written yet. An index of another format than this program's is an error."""
    if database.execute(_META, (database.schema,)).fetchone() is None:
        return False
    # By its full name: a schema that one has no right to use is passed over in the search for a name.
    query = f"""select value from "{database.schema}".meta where key = 'format'"""  # noqa: S608
    found = database.execute(query).fetchone()
    if found is None:
        return False
    require_format(str(found[0]), database.url)
    return True


def make_tables(database: PostgresDatabase) -> None:
    """Make the schema and all that is missing in it, in one transaction: an index is there whole or not at all."""
    with database.connection.transaction():
        hold_lock(database)
        if not is_made(database):
            _require_own(database)
            database.script(f'create schema if not exists "{database.schema}"')
            complete_tables(database)
            database.execute(_MADE, (str(INDEX_FORMAT), secrets.token_hex(16)))


def complete_tables(database: PostgresDatabase) -> None:
    """Make what is missing in a schema."""
    own = files("clew.index.postgres")
    database.script(own.joinpath("functions.sql").read_text())
    database.script(schema_in_postgres(files("clew.index").joinpath("schema.sql").read_text()))
    database.script(own.joinpath("additions.sql").read_text())


def drop_indexes(database: PostgresDatabase) -> None:
    """Drop what `complete_tables` can make at the end, at less cost."""
    for (name,) in database.execute(_INDEXES, (database.schema,)).fetchall():
        database.script(f"drop index {name}")


def _require_own(database: PostgresDatabase) -> None:
    """A schema is dropped as a whole when its index is built anew: it must hold nothing else."""
    found = database.execute(_OTHERS, (database.schema,)).fetchone()
    if found is not None:
        message = f"The schema {database.schema} of {database.url} holds {found[0]}, which is not clew's."
        raise ClewError(message, hint="Give the index a schema of its own: add ?schema=NAME to the URL.")
