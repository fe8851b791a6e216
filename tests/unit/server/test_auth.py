"""Tests of authentication by the Authorization header."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection

from clew.server.auth import ANONYMOUS, Authenticator, ForbiddenError, KeyFile, Principal, Scope, UnauthenticatedError


def make_request(authorization: str | None = None) -> HTTPConnection:
    headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
    return HTTPConnection({"type": "http", "headers": headers})


def authenticate(authenticator: Authenticator, authorization: str | None, scope: Scope = Scope.WRITE) -> Principal:
    return asyncio.run(authenticator.authenticate(make_request(authorization), scope))


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "keys.json")


@pytest.mark.parametrize("authorization", [None, "Bearer anything"])
def test_everyone_is_anonymous_without_keys(authorization: str | None) -> None:
    assert authenticate(Authenticator(), authorization) is ANONYMOUS


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER "])
def test_accepts_a_bearer_key(scheme: str, keys: KeyFile) -> None:
    key = keys.add("airflow", [Scope.WRITE])
    assert authenticate(Authenticator(keys), f"{scheme} {key}").name == "The key 'airflow'"


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Bearer ", "Basic YTpi", "Bearer clew_1_x", "Bearer ü"])
def test_rejects_a_missing_or_invalid_key(authorization: str | None, keys: KeyFile) -> None:
    keys.add("airflow", [Scope.WRITE])
    with pytest.raises(UnauthenticatedError):
        authenticate(Authenticator(keys), authorization)


def test_rejects_a_key_without_the_scope(keys: KeyFile) -> None:
    key = keys.add("reader", [Scope.READ])
    with pytest.raises(ForbiddenError, match="lacks the scope 'write'"):
        authenticate(Authenticator(keys), f"Bearer {key}")
    assert authenticate(Authenticator(keys), f"Bearer {key}", Scope.READ).name == "The key 'reader'"


def test_accepts_both_keys_and_tokens(keys: KeyFile) -> None:
    def verify_token(token: str) -> Principal:
        return Principal(f"token {token}", frozenset({Scope.ADMIN}))

    key = keys.add("airflow", [Scope.WRITE])
    authenticator = Authenticator(keys, verify_token)
    assert authenticate(authenticator, f"Bearer {key}").name == "The key 'airflow'"
    assert authenticate(authenticator, "Bearer a.b.c").name == "token a.b.c"
    with pytest.raises(UnauthenticatedError):
        authenticate(Authenticator(None, verify_token), f"Bearer {key}")
