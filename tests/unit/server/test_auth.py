"""Who is let in by the header of a request."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection

from clew.server.auth import ANONYMOUS, Authenticator, ForbiddenError, KeyFile, Principal, Scope, UnauthenticatedError


def request(authorization: str | None = None) -> HTTPConnection:
    headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
    return HTTPConnection({"type": "http", "headers": headers})


def admitted(guard: Authenticator, authorization: str | None, scope: Scope = Scope.WRITE) -> Principal:
    return asyncio.run(guard.authenticate(request(authorization), scope))


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.mark.parametrize("authorization", [None, "Bearer anything"])
def test_without_keys_everyone_is(authorization: str | None) -> None:
    assert admitted(Authenticator(), authorization) is ANONYMOUS


@pytest.mark.parametrize("kind", ["Bearer", "bearer", "BEARER "])
def test_a_key_is_sent_as_bearer(kind: str, keys: KeyFile) -> None:
    key = keys.add("airflow", [Scope.WRITE])
    assert admitted(Authenticator(keys), f"{kind} {key}").name == "The key 'airflow'"


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer clew_1_x", "Bearer ü"])
def test_who_sends_none_is_unknown(authorization: str | None, keys: KeyFile) -> None:
    keys.add("airflow", [Scope.WRITE])
    with pytest.raises(UnauthenticatedError):
        admitted(Authenticator(keys), authorization)


def test_a_key_without_the_scope_is_not_enough(keys: KeyFile) -> None:
    key = keys.add("reader", [Scope.READ])
    with pytest.raises(ForbiddenError, match="lacks the scope 'write'"):
        admitted(Authenticator(keys), f"Bearer {key}")
    assert admitted(Authenticator(keys), f"Bearer {key}", Scope.READ).name == "The key 'reader'"


def test_keys_and_tokens_may_be_used_side_by_side(keys: KeyFile) -> None:
    def tokens(token: str) -> Principal:
        return Principal(f"token {token}", frozenset({Scope.ADMIN}))

    key = keys.add("airflow", [Scope.WRITE])
    guard = Authenticator(keys, tokens)
    assert admitted(guard, f"Bearer {key}").name == "The key 'airflow'"
    assert admitted(guard, "Bearer a.b.c").name == "token a.b.c"
    with pytest.raises(UnauthenticatedError):
        admitted(Authenticator(None, tokens), f"Bearer {key}")
