"""Fixtures and the hypothesis profile of unit tests."""

from __future__ import annotations

from hypothesis import settings
from tests.support.fixtures import holdings, lines_of, orders, place, postgres_places, story, world, world_in

settings.register_profile("unit", deadline=None, max_examples=50)
settings.load_profile("unit")

__all__ = ["holdings", "lines_of", "orders", "place", "postgres_places", "story", "world", "world_in"]
