"""Tests of the authentication middleware."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from clew.api.middleware import AuthMiddleware
from clew.server.auth import Authenticator, KeyFile, Scope

PATHS = ("/", "/api/v1/namespaces")


def echo_method(request: Request) -> Response:
    return PlainTextResponse(request.method)


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def client(keys: KeyFile) -> TestClient:
    app = Starlette(routes=[Route(path, echo_method, methods=["GET", "PUT"]) for path in PATHS])
    return TestClient(AuthMiddleware(app, Authenticator(keys)))


@pytest.mark.parametrize(
    ("scopes", "namespaces", "read_status", "write_status"),
    [
        ([Scope.READ], [], 200, 403),
        ([Scope.WRITE], [], 403, 200),
        ([Scope.ADMIN], [], 200, 200),
        ([Scope.READ, Scope.WRITE], ["shop"], 403, 403),
    ],
)
def test_a_key_allows_requests_of_its_scopes(
    scopes: list[Scope], namespaces: list[str], read_status: int, write_status: int, keys: KeyFile, client: TestClient
) -> None:
    headers = {"authorization": f"Bearer {keys.add('someone', scopes, namespaces)}"}
    assert client.get("/api/v1/namespaces", headers=headers).status_code == read_status
    assert client.put("/api/v1/namespaces", headers=headers).status_code == write_status


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer nobody"}, {"authorization": "Basic x"}])
def test_an_unauthenticated_request_is_401(headers: dict[str, str], keys: KeyFile, client: TestClient) -> None:
    keys.add("someone", [Scope.READ], [])
    response = client.get("/api/v1/namespaces", headers=headers)
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")
    assert response.json()["detail"]


def test_the_page_needs_no_key(keys: KeyFile, client: TestClient) -> None:
    keys.add("someone", [Scope.READ], [])
    assert client.get("/").status_code == 200
