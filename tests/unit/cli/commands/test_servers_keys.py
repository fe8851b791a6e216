"""Tests of `clew keys` and of the authentication options of `clew collect`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.errors import UsageError
from clew.server.auth import KeyFile


def invoke(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--home", str(home)], catch_exceptions=False)


def test_key_is_printed_once_and_valid_until_revoked(tmp_path: Path) -> None:
    added = invoke(tmp_path, "keys", "add", "airflow", "--scope", "write", "--scope", "read", "--namespace", "prod")
    key = added.stdout.strip()
    assert "will not be shown again" in added.stderr
    principal = KeyFile(tmp_path / "keys.json").find_principal(key)
    assert principal is not None
    assert (sorted(principal.scopes), principal.namespaces) == (["read", "write"], ("prod",))
    assert key not in invoke(tmp_path, "keys", "list").stdout
    (listed,) = json.loads(invoke(tmp_path, "keys", "list", "--json").stdout)
    assert (listed["name"], listed["id"], "hash" in listed) == ("airflow", key.split("_")[1], False)
    assert invoke(tmp_path, "keys", "revoke", "airflow").exit_code == 0
    assert KeyFile(tmp_path / "keys.json").find_principal(key) is None


def test_keys_print_json(tmp_path: Path) -> None:
    added = json.loads(invoke(tmp_path, "keys", "add", "airflow", "--json").stdout)
    assert (added["name"], added["scopes"]) == ("airflow", ["write"])
    assert KeyFile(tmp_path / "keys.json").find_principal(added["key"]) is not None
    assert json.loads(invoke(tmp_path, "keys", "revoke", "airflow", "--json").stdout) == {"revoked": "airflow"}


def test_key_scope_defaults_to_write(tmp_path: Path) -> None:
    invoke(tmp_path, "keys", "add", "airflow")
    lines = invoke(tmp_path, "keys", "list").stdout.splitlines()
    assert lines[1].split()[2:4] == ["write", "all"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 is reachable from other machines, and no API keys exist"),
        (["--host", "::"], ":: is reachable from other machines"),
        (["--require-key"], "No API keys exist"),
        (["--jwks", "keys.json"], "--jwks, --jwt-issuer and --jwt-audience must be used together"),
        (["--tls-key", "key.pem"], "--tls-cert and --tls-key must be used together"),
        (["--tls-cert", "no.pem", "--tls-key", "no.pem"], "Cannot use TLS with no.pem and no.pem"),
    ],
)
def test_collector_with_invalid_authentication_options_does_not_start(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        invoke(tmp_path / "home", "collect", *options)
