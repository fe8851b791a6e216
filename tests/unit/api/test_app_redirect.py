"""Tests of redirects from typed paths to the web UI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from clew.api.app import create_app
from clew.query.model import NotebookRun

MakeRoutes = Callable[[list[NotebookRun]], list[Route]]
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.fixture
def client(make_routes: MakeRoutes, sample: dict[str, Any], web_build: Path) -> TestClient:
    assert web_build.is_dir()
    return TestClient(create_app(make_routes([sample["orders_run"]()])), follow_redirects=False)


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/lineage", "./#/lineage"),
        ("/lineage/", "../#/lineage"),
        ("/lineage?node=dataset%2Fwh%2Fa&column=b", "./#/lineage?node=dataset%2Fwh%2Fa&column=b"),
        ("/datasets/wh/finance.margin", "../../#/datasets/wh/finance.margin"),
        ("/datasets/postgres%3A%2F%2Fwh/a%2Fb", "../../#/datasets/postgres%3A%2F%2Fwh/a%2Fb"),
        ("/nonsense", "./#/nonsense"),
        ("/apis", "./#/apis"),
    ],
)
def test_a_typed_path_redirects_to_the_hash_url(client: TestClient, path: str, location: str) -> None:
    response = client.get(path, headers=BROWSER)
    assert (response.status_code, response.headers["location"]) == (302, location)


def test_the_redirect_leads_to_the_page(client: TestClient) -> None:
    response = client.get("/datasets/wh/orders", headers=BROWSER, follow_redirects=True)
    assert (response.status_code, response.url.path) == (200, "/")
    assert response.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize(
    ("method", "path", "accept", "status"),
    [
        ("GET", "/lineage", "application/json", 404),
        ("GET", "/lineage", "*/*", 404),
        ("POST", "/lineage", "text/html", 404),
        ("GET", "/api/v2/nothing", "text/html", 404),
        ("GET", "/api", "text/html", 404),
        ("GET", "/assets/index-0.js", "text/html", 404),
        ("POST", "/api/v2/notebook-runs", "text/html", 405),
    ],
)
def test_other_requests_get_an_error(client: TestClient, method: str, path: str, accept: str, status: int) -> None:
    response = client.request(method, path, headers={"accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
