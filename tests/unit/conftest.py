"""Fixtures and the hypothesis profile of unit tests."""

from __future__ import annotations

from hypothesis import settings
from tests.support.fixtures import (
    format_lineage,
    index_location,
    notebook_events,
    orders,
    postgres_schemas,
    resources,
    scenario,
    scenario_class,
)

settings.register_profile("unit", deadline=None, max_examples=50)
settings.load_profile("unit")

__all__ = [
    "format_lineage",
    "index_location",
    "notebook_events",
    "orders",
    "postgres_schemas",
    "resources",
    "scenario",
    "scenario_class",
]
