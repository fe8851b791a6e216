"""Fixtures and the hypothesis profile of law tests."""

from __future__ import annotations

from hypothesis import settings
from tests.integration.conftest import spark
from tests.support.fixtures import (
    format_lineage,
    index_location,
    notebook_events,
    orders,
    postgres_schemas,
    resources,
    scenario_class,
)
from tests.unit.api.marquez.conftest import empty_shop, shared_shop, shop
from tests.unit.index.conftest import index_writer, sqlite_writer
from tests.unit.query.conftest import scenario

settings.register_profile("laws", deadline=None, max_examples=50)
settings.load_profile("laws")

__all__ = [
    "empty_shop",
    "format_lineage",
    "index_location",
    "index_writer",
    "notebook_events",
    "orders",
    "postgres_schemas",
    "resources",
    "scenario",
    "scenario_class",
    "shared_shop",
    "shop",
    "spark",
    "sqlite_writer",
]
