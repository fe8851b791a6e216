"""Selection of the index backend: a SQLite file, or a PostgreSQL database by URL."""

from __future__ import annotations

from pathlib import Path

from clew.errors import MissingExtraError
from clew.home import IndexLocation
from clew.index.database import IndexBackend
from clew.index.sqlite import SqliteBackend


def open_backend(location: IndexLocation) -> IndexBackend:
    """Return the backend of a location, without connecting to it."""
    if isinstance(location, Path):
        return SqliteBackend(location)
    try:
        from clew.index.postgres.store import PostgresBackend
    except ModuleNotFoundError as error:
        raise MissingExtraError.for_module("postgres", "psycopg") from error
    return PostgresBackend(location)
