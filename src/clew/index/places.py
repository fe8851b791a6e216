"""Where an index can be: in a SQLite file, or in a PostgreSQL database that a URL names."""

from __future__ import annotations

from pathlib import Path

from clew.errors import MissingExtraError
from clew.home import Place
from clew.index.database import Store
from clew.index.sqlite import SqliteStore


def store_of(place: Place) -> Store:
    """The store at a place; it is not opened yet."""
    if isinstance(place, Path):
        return SqliteStore(place)
    try:
        from clew.index.postgres.store import PostgresStore
    except ModuleNotFoundError as fault:
        raise MissingExtraError.named("postgres", "psycopg") from fault
    return PostgresStore(place)
