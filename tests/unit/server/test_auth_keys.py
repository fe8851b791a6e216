"""Tests of API keys: creation, hashed storage, scopes, namespaces and revocation."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from clew.errors import ClewError, UsageError
from clew.server.auth import ForbiddenError, KeyFile, Principal, Scope


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_key_grants_its_scopes_and_namespaces(path: Path) -> None:
    key = KeyFile(path).add("airflow", [Scope.WRITE], ["prod", "staging"])
    assert KeyFile(path).find_principal(key) == Principal(
        "The key 'airflow'", frozenset({Scope.WRITE}), ("prod", "staging")
    )


def test_stores_only_the_hash_in_a_private_file(path: Path) -> None:
    key = KeyFile(path).add("airflow", [Scope.WRITE])
    secret = key.split("_", 2)[2]
    assert len(secret) >= 43
    assert secret not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeyFile(path).list_keys()[0].hash not in key


def test_rejects_invalid_keys(path: Path) -> None:
    keys = KeyFile(path)
    assert keys.find_principal("clew_00000000_x") is None
    key = keys.add("airflow", [Scope.WRITE])
    for invalid_key in (
        "",
        "clew",
        key[:-1],
        f"{key}x",
        key.upper(),
        key.replace("clew", "other"),
        "clew__",
        "schlüssel",
    ):
        assert keys.find_principal(invalid_key) is None, invalid_key


def test_running_server_sees_new_and_revoked_keys(path: Path) -> None:
    server, admin = KeyFile(path), KeyFile(path)
    first = admin.add("first", [Scope.READ])
    assert server.find_principal(first) is not None
    second = admin.add("second", [Scope.READ])
    admin.revoke("first")
    assert server.find_principal(first) is None
    assert server.find_principal(second) is not None
    assert [key.name for key in server.list_keys()] == ["second"]


def test_names_are_unique(path: Path) -> None:
    keys = KeyFile(path)
    keys.add("airflow", [Scope.WRITE])
    with pytest.raises(UsageError, match="A key named 'airflow' already exists"):
        keys.add("airflow", [Scope.READ])
    with pytest.raises(UsageError, match="There is no key named 'dbt'"):
        keys.revoke("dbt")


@pytest.mark.parametrize("text", ["", "{}", '[{"name": "x"}]'])
def test_reports_an_unreadable_key_file(text: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(ClewError, match="Cannot read the API keys"):
        KeyFile(path).find_principal("clew_00000000_x")


@pytest.mark.parametrize(
    ("scopes", "scope", "is_allowed"),
    [
        ({Scope.WRITE}, Scope.WRITE, True),
        ({Scope.WRITE}, Scope.READ, False),
        ({Scope.READ}, Scope.WRITE, False),
        ({Scope.READ, Scope.WRITE}, Scope.READ, True),
        ({Scope.ADMIN}, Scope.READ, True),
        ({Scope.ADMIN}, Scope.WRITE, True),
        ({Scope.READ}, Scope.ADMIN, False),
        (set(), Scope.READ, False),
    ],
)
def test_require_scope(scopes: set[Scope], scope: Scope, is_allowed: bool) -> None:
    principal = Principal("x", frozenset(scopes))
    if is_allowed:
        principal.require_scope(scope)
    else:
        with pytest.raises(ForbiddenError, match=f"x lacks the scope '{scope}'"):
            principal.require_scope(scope)


@pytest.mark.parametrize(
    ("namespaces", "is_allowed"),
    [(["prod"], True), (["prod.eu"], True), (["staging"], False), (["prod", "staging"], False), ([], False)],
)
def test_check_namespaces(namespaces: list[str], is_allowed: bool) -> None:
    principal = Principal("x", frozenset({Scope.WRITE}), ("prod",))
    if is_allowed:
        principal.check_namespaces(namespaces)
    else:
        with pytest.raises(ForbiddenError, match="begin with 'prod'"):
            principal.check_namespaces(namespaces)
    Principal("y", frozenset({Scope.WRITE})).check_namespaces(namespaces)
