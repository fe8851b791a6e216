"""Questions are asked of both databases, one after the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.event_generator import World

from clew.data_dir import IndexLocation


@pytest.fixture
def world(tmp_path: Path, place: IndexLocation) -> World:
    """Return an empty world."""
    return World(tmp_path, place)


@pytest.fixture
def story(story: Any, place: IndexLocation) -> Any:
    """Return an empty story, to be filled with sessions."""
    story.index = place
    return story
