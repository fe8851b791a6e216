"""What tests of the index share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from clew.index.writer import IndexWriter


@pytest.fixture(scope="module")
def file_sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IndexWriter]:
    """For laws that take thousands of batches; what PostgreSQL then holds is held against the file's."""
    with IndexWriter(tmp_path_factory.mktemp("index") / "index.sqlite") as opened:
        # Thousands of small transactions, none of which has to survive.
        opened._database.execute("pragma synchronous = off")
        opened._database.execute("pragma journal_mode = memory")
        yield opened


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def sink(request: pytest.FixtureRequest) -> Iterator[IndexWriter]:
    """An index in a file, then one in a database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("file_sink")
        return
    places: Any = request.getfixturevalue("postgres_places")
    with IndexWriter(places.empty("sink")) as opened:
        yield opened
