"""Tests of the authentication middleware."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from clew.api.app import CollectorDispatch
from clew.api.middleware import AuthMiddleware, RequireKeyMiddleware
from clew.server.auth import Authenticator, KeyFile, Scope
from clew.server.jwt_auth import JwtAuthenticator

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


def log_in(client: TestClient, key: str) -> Any:
    return client.post("/api/login", json={"key": key}, headers={"origin": "http://testserver"})


def test_a_login_starts_a_session(keys: KeyFile, client: TestClient) -> None:
    key = keys.add("someone", [Scope.ADMIN], [])
    response = log_in(client, key)
    assert (response.status_code, response.content) == (204, b"")
    cookies = response.headers.get_list("set-cookie")
    (session,) = (cookie for cookie in cookies if cookie.startswith("clew-session-"))
    attributes = {attribute.lower() for attribute in session.split("; ")[1:]}
    assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= attributes
    assert all(key not in cookie for cookie in cookies)
    assert client.get("/api/v1/namespaces").status_code == 200
    origin = {"origin": "http://testserver"}
    assert client.put("/api/v1/namespaces", headers=origin).status_code == 200
    assert client.put("/api/v1/namespaces").status_code == 403
    assert client.put("/api/v1/namespaces", headers={"authorization": f"Bearer {key}"}).status_code == 200
    assert client.post("/api/logout", headers=origin).status_code == 204
    assert client.get("/api/v1/namespaces").status_code == 401


def test_a_session_ends_when_its_key_is_revoked(keys: KeyFile, client: TestClient) -> None:
    log_in(client, keys.add("someone", [Scope.READ], []))
    assert client.get("/api/v1/namespaces").status_code == 200
    assert client.put("/api/v1/namespaces", headers={"origin": "http://testserver"}).status_code == 403
    keys.revoke("someone")
    assert client.get("/api/v1/namespaces").status_code == 401


def test_cookies_are_secure_with_tls(keys: KeyFile) -> None:
    app = Starlette(routes=[Route(path, echo_method) for path in PATHS])
    client = TestClient(AuthMiddleware(app, Authenticator(keys)), base_url="https://testserver")
    cookies = log_in(client, keys.add("someone", [Scope.READ], [])).headers.get_list("set-cookie")
    assert len(cookies) == 2
    assert all("; Secure" in cookie for cookie in cookies)


def test_cookies_are_secure_behind_a_proxy_with_tls(keys: KeyFile) -> None:
    app: Any = AuthMiddleware(Starlette(), Authenticator(keys))
    # As in the server; its client has the address of a proxy on the same machine.
    proxied: Any = ProxyHeadersMiddleware(app, trusted_hosts="127.0.0.1")
    client = TestClient(proxied, client=("127.0.0.1", 50_000), headers={"x-forwarded-proto": "https"})
    cookies = log_in(client, keys.add("someone", [Scope.READ], [])).headers.get_list("set-cookie")
    assert len(cookies) == 2
    assert all("; Secure" in cookie for cookie in cookies)


def test_a_session_ends_when_its_token_expires(tmp_path: Path) -> None:
    secret = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = {**json.loads(RSAAlgorithm.to_jwk(secret.public_key())), "kid": "rsa"}
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [public]}))
    tokens = JwtAuthenticator(str(tmp_path / "jwks.json"), "https://id.example.org", "clew")
    claims = {"sub": "someone", "iss": "https://id.example.org", "aud": "clew", "scope": "clew:read"}
    expires_at = time.time() + 300
    token = jwt.encode({**claims, "exp": expires_at}, secret, "RS256", {"kid": "rsa"})
    app = Starlette(routes=[Route(path, echo_method) for path in PATHS])
    client = TestClient(AuthMiddleware(app, Authenticator(None, tokens)))
    assert log_in(client, token).status_code == 204
    assert client.get("/api/v1/namespaces").status_code == 200
    with patch("jwt.api_jwt.datetime") as clock:
        clock.now.return_value = datetime.fromtimestamp(expires_at + 600, UTC)
        assert client.get("/api/v1/namespaces").status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"key": "clew_unknown"}', 401),
        (b'{"key": 7}', 400),
        (b"key=x", 400),
        (b"", 400),
        (b'{"key": "%s"}' % (b"x" * (1 << 20)), 400),
    ],
)
def test_an_invalid_login_sets_no_cookie(body: bytes, status: int, keys: KeyFile, client: TestClient) -> None:
    keys.add("someone", [Scope.READ], [])
    response = client.post("/api/login", content=body, headers={"content-type": "application/json"})
    assert (response.status_code, response.headers.get_list("set-cookie")) == (status, [])


def test_an_application_without_limits_needs_an_unrestricted_read_key(keys: KeyFile) -> None:
    app: Any = RequireKeyMiddleware(Starlette(routes=[Route("/mcp", echo_method)]), Authenticator(keys))
    client = TestClient(app)
    statuses = []
    for number, (scope, namespaces) in enumerate([(Scope.READ, []), (Scope.WRITE, []), (Scope.READ, ["shop"])]):
        key = keys.add(str(number), [scope], namespaces)
        statuses.append(client.get("/mcp", headers={"authorization": f"Bearer {key}"}).status_code)
    assert statuses == [200, 403, 403]
    assert client.get("/mcp").status_code == 401
    assert client.get("/elsewhere").status_code == 401


def test_failed_logins_are_limited_by_address(keys: KeyFile) -> None:
    app: Any = AuthMiddleware(Starlette(routes=[Route(path, echo_method) for path in PATHS]), Authenticator(keys))
    key, client = keys.add("someone", [Scope.READ], []), TestClient(app)
    # Successful logins are not limited.
    assert [log_in(client, key).status_code for _ in range(15)] == [204] * 15
    responses = [log_in(client, "clew_wrong") for _ in range(12)]
    assert [response.status_code for response in responses] == [401] * 10 + [429] * 2
    assert 1 <= int(responses[-1].headers["retry-after"]) <= 5
    assert log_in(client, key).status_code == 429
    # Requests with the key are not affected, and neither are other addresses.
    client.cookies.clear()
    assert client.get("/api/v1/namespaces", headers={"authorization": f"Bearer {key}"}).status_code == 200
    assert log_in(TestClient(app, client=("192.0.2.1", 1)), key).status_code == 204


@pytest.mark.parametrize("damage", ["garbage", "folder", "loop"])
def test_a_damaged_key_file_is_503(damage: str, keys: KeyFile) -> None:
    app: Any = AuthMiddleware(Starlette(routes=[Route(path, echo_method) for path in PATHS]), Authenticator(keys))
    headers, client = {"authorization": f"Bearer {keys.add('someone', [Scope.READ], [])}"}, TestClient(app)
    assert client.get("/api/v1/namespaces", headers=headers).status_code == 200
    path = keys._path
    path.unlink()
    if damage == "garbage":
        path.write_bytes(b"\xff" * 100)
    elif damage == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    for response in (client.get("/api/v1/namespaces", headers=headers), log_in(client, "clew_a_b")):
        assert (response.status_code, response.json()["title"][:25]) == (503, "Cannot read the API keys ")


def test_a_write_key_cannot_log_in(keys: KeyFile, client: TestClient) -> None:
    assert log_in(client, keys.add("producer", [Scope.WRITE], [])).status_code == 403


@pytest.mark.parametrize("has_collector", [False, True])
def test_closes_the_applications_of_limited_keys(has_collector: bool, keys: KeyFile) -> None:
    closed = []
    routes = [Route(path, echo_method) for path in PATHS]

    def build(namespaces: tuple[str, ...]) -> tuple[Starlette, Callable[[], None]]:
        return Starlette(routes=routes), lambda: closed.append(namespaces)

    guarded: Any = AuthMiddleware(Starlette(routes=routes), Authenticator(keys), build)
    app = CollectorDispatch(guarded, Starlette(), guarded.close) if has_collector else guarded
    with TestClient(app) as client:
        for number in range(18):
            headers = {"authorization": f"Bearer {keys.add(str(number), [Scope.READ], [f'n{number}'])}"}
            assert client.get("/api/v1/namespaces", headers=headers).status_code == 200
        assert closed == [("n0",), ("n1",)]
    assert len(closed) == 18
