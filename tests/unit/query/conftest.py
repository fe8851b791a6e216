"""Fixtures of query tests: every test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.event_generator import Scenario

from clew.data_dir import IndexLocation


@pytest.fixture
def scenario(tmp_path: Path, index_location: IndexLocation) -> Scenario:
    """Return an empty scenario."""
    return Scenario(tmp_path, index_location)


@pytest.fixture
def notebook_events(notebook_events: Any, index_location: IndexLocation) -> Any:
    """Return an empty collection of notebook sessions."""
    notebook_events.index = index_location
    return notebook_events
