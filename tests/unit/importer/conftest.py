"""Fixtures of import tests: databases of Marquez servers."""

from __future__ import annotations

import pytest
from tests.support.marquez_database import MarquezDatabase, create_database


@pytest.fixture(params=["0.51", "without created_at"])
def marquez(request: pytest.FixtureRequest, postgres: str) -> MarquezDatabase:
    """Return an empty database, in two versions of the schema."""
    return MarquezDatabase(create_database(postgres), is_old=request.param != "0.51")


@pytest.fixture
def current(postgres: str) -> MarquezDatabase:
    """Return an empty database of version 0.51."""
    return MarquezDatabase(create_database(postgres))
