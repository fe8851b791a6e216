"""Where an index can be: in a SQLite file, or in a PostgreSQL database that a URL names."""

from __future__ import annotations

from pathlib import Path

from clew.errors import ClewError, MissingExtraError
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


def require_file(place: Place) -> None:
    """Refuse a database where questions are not asked in its words yet."""
    if not isinstance(place, Path):
        message = f"The lists of the page and Marquez's API are not answered from {place} yet."
        raise ClewError(message, hint="Ask under /api/v2, or serve from an index in a file: leave CLEW_INDEX out.")
