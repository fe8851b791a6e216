"""Tests of the metrics of the index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.api.metrics import IndexMetrics
from clew.errors import ClewError


def values(path: Path) -> dict[str, float]:
    return {sample.name: sample.value for family in IndexMetrics(path).collect() for sample in family.samples}


def test_of_an_index(scenario: Any) -> None:
    scenario.run("load")
    scenario.run("load")
    scenario.index_events()
    found = values(scenario.index)
    assert (found["clew_index_up"], found["clew_index_position"]) == (1, 1)
    assert 0 <= found["clew_index_age_seconds"] < 600
    IndexMetrics(scenario.index).check_ready()


def test_a_new_installation_is_ready(tmp_path: Path) -> None:
    index = tmp_path / "index.sqlite"
    assert values(index) == {"clew_index_up": 0}
    IndexMetrics(index).check_ready()
    assert not index.exists()


def test_a_damaged_index_is_not_ready(tmp_path: Path) -> None:
    index = tmp_path / "index.sqlite"
    index.write_bytes(b"damaged" * 1000)
    assert values(index) == {"clew_index_up": 0}
    with pytest.raises(ClewError):
        IndexMetrics(index).check_ready()
