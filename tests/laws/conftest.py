"""Fixtures and the hypothesis profile of law tests."""

from __future__ import annotations

from hypothesis import settings
from tests.integration.conftest import spark
from tests.support.fixtures import holdings, lines_of, orders, place, postgres_places, story, world_in
from tests.unit.api.marquez.conftest import empty_shop, shared_shop, shop
from tests.unit.index.conftest import file_sink, sink
from tests.unit.query.conftest import world

settings.register_profile("laws", deadline=None, max_examples=50)
settings.load_profile("laws")

__all__ = [
    "empty_shop",
    "file_sink",
    "holdings",
    "lines_of",
    "orders",
    "place",
    "postgres_places",
    "shared_shop",
    "shop",
    "sink",
    "spark",
    "story",
    "world",
    "world_in",
]
