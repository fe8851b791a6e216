"""Fixtures of the index tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clew.index.writer import IndexWriter


@pytest.fixture(scope="module")
def sqlite_writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexWriter]:
    """Open an index in a SQLite file without durability, for properties with thousands of batches."""
    with IndexWriter(tmp_path_factory.mktemp("index") / "index.sqlite") as writer:
        # Thousands of small transactions; durability is not needed.
        writer._database.execute("pragma synchronous = off")
        writer._database.execute("pragma journal_mode = memory")
        yield writer


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def index_writer(request: pytest.FixtureRequest) -> Iterator[IndexWriter]:
    """Open an index: in SQLite, then in PostgreSQL."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_writer")
        return
    schemas: Any = request.getfixturevalue("postgres_schemas")
    with IndexWriter(schemas.empty("sink")) as writer:
        yield writer
