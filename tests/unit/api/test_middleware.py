"""Who is let in to ask, and to change something."""

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

EVERYTHING = ("/", "/api/v1/namespaces")


def answer(request: Request) -> Response:
    return PlainTextResponse(request.method)


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.fixture
def client(keys: KeyFile) -> TestClient:
    app = Starlette(routes=[Route(path, answer, methods=["GET", "PUT"]) for path in EVERYTHING])
    return TestClient(AuthMiddleware(app, Authenticator(keys)))


@pytest.mark.parametrize(
    ("scopes", "namespaces", "asked", "changed"),
    [
        ([Scope.READ], [], 200, 403),
        ([Scope.WRITE], [], 403, 200),
        ([Scope.ADMIN], [], 200, 200),
        ([Scope.READ, Scope.WRITE], ["shop"], 403, 403),
    ],
)
def test_a_key_lets_in_for_its_scopes(
    scopes: list[Scope], namespaces: list[str], asked: int, changed: int, keys: KeyFile, client: TestClient
) -> None:
    headers = {"authorization": f"Bearer {keys.add('someone', scopes, namespaces)}"}
    assert client.get("/api/v1/namespaces", headers=headers).status_code == asked
    assert client.put("/api/v1/namespaces", headers=headers).status_code == changed


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer nobody"}, {"authorization": "Basic x"}])
def test_who_is_not_known_is_told_how_to_be(headers: dict[str, str], keys: KeyFile, client: TestClient) -> None:
    keys.add("someone", [Scope.READ], [])
    refused = client.get("/api/v1/namespaces", headers=headers)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.json()["detail"]


def test_the_page_itself_is_for_all(keys: KeyFile, client: TestClient) -> None:
    keys.add("someone", [Scope.READ], [])
    assert client.get("/").status_code == 200
