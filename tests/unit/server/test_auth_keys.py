"""API keys: told once, kept as hashes, and gone when they are revoked."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from clew.errors import ClewError, UsageError
from clew.server.auth import ForbiddenError, KeyFile, Principal, Scope


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_key_gives_what_it_was_made_for(path: Path) -> None:
    key = KeyFile(path).add("airflow", [Scope.WRITE], ["prod", "staging"])
    assert KeyFile(path).find_principal(key) == Principal(
        "The key 'airflow'", frozenset({Scope.WRITE}), ("prod", "staging")
    )


def test_no_key_is_kept_and_only_its_owner_reads_the_file(path: Path) -> None:
    key = KeyFile(path).add("airflow", [Scope.WRITE])
    secret = key.split("_", 2)[2]
    assert len(secret) >= 43
    assert secret not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeyFile(path).list_keys()[0].hash not in key


def test_what_is_no_key_gives_nothing(path: Path) -> None:
    keys = KeyFile(path)
    assert keys.find_principal("clew_00000000_x") is None
    key = keys.add("airflow", [Scope.WRITE])
    for wrong in ("", "clew", key[:-1], f"{key}x", key.upper(), key.replace("clew", "other"), "clew__", "schlüssel"):
        assert keys.find_principal(wrong) is None, wrong


def test_a_server_at_work_hears_of_new_and_revoked_keys(path: Path) -> None:
    at_work, by_hand = KeyFile(path), KeyFile(path)
    first = by_hand.add("first", [Scope.READ])
    assert at_work.find_principal(first) is not None
    second = by_hand.add("second", [Scope.READ])
    by_hand.revoke("first")
    assert at_work.find_principal(first) is None
    assert at_work.find_principal(second) is not None
    assert [key.name for key in at_work.list_keys()] == ["second"]


def test_names_are_told_apart(path: Path) -> None:
    keys = KeyFile(path)
    keys.add("airflow", [Scope.WRITE])
    with pytest.raises(UsageError, match="A key named 'airflow' already exists"):
        keys.add("airflow", [Scope.READ])
    with pytest.raises(UsageError, match="There is no key named 'dbt'"):
        keys.revoke("dbt")


@pytest.mark.parametrize("text", ["", "{}", '[{"name": "x"}]'])
def test_a_file_that_cannot_be_read_lets_nobody_in(text: str, path: Path) -> None:
    path.write_text(text)
    with pytest.raises(ClewError, match="Cannot read the API keys"):
        KeyFile(path).find_principal("clew_00000000_x")


@pytest.mark.parametrize(
    ("scopes", "scope", "is_enough"),
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
def test_scopes(scopes: set[Scope], scope: Scope, is_enough: bool) -> None:
    grant = Principal("x", frozenset(scopes))
    if is_enough:
        grant.require_scope(scope)
    else:
        with pytest.raises(ForbiddenError, match=f"x lacks the scope '{scope}'"):
            grant.require_scope(scope)


@pytest.mark.parametrize(
    ("named", "is_reached"),
    [(["prod"], True), (["prod.eu"], True), (["staging"], False), (["prod", "staging"], False), ([], False)],
)
def test_a_grant_may_end_at_namespaces(named: list[str], is_reached: bool) -> None:
    grant = Principal("x", frozenset({Scope.WRITE}), ("prod",))
    if is_reached:
        grant.check_namespaces(named)
    else:
        with pytest.raises(ForbiddenError, match="begin with 'prod'"):
            grant.check_namespaces(named)
    Principal("y", frozenset({Scope.WRITE})).check_namespaces(named)
