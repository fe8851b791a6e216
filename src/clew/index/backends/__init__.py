"""Database backends of the index: SQLite and PostgreSQL.

- `base.py`: protocols
- `sqlite.py`: SQLite
- `postgres/`: PostgreSQL
"""

from __future__ import annotations

from pathlib import Path

from clew.data_dir import IndexLocation
from clew.errors import MissingExtraError
from clew.index.backends.base import IndexBackend
from clew.index.backends.sqlite import SqliteBackend


def open_backend(location: IndexLocation) -> IndexBackend:
    """Return the backend of a location, without connecting to it."""
    if isinstance(location, Path):
        return SqliteBackend(location)
    try:
        from clew.index.backends.postgres.store import PostgresBackend
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_module("postgres", "psycopg") from error
    return PostgresBackend(location)
