"""`clew keys`, and who `clew collect` lets in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.errors import UsageError
from clew.serving.keys import KeyFile


def invoke(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--home", str(home)], catch_exceptions=False)


def test_a_key_is_printed_once_and_works_until_it_is_revoked(tmp_path: Path) -> None:
    added = invoke(tmp_path, "keys", "add", "airflow", "--scope", "write", "--scope", "read", "--namespace", "prod")
    key = added.stdout.strip()
    assert "cannot be shown again" in added.stderr
    grant = KeyFile(tmp_path / "keys.json").grant(key)
    assert grant is not None
    assert (sorted(grant.scopes), grant.namespaces) == (["read", "write"], ("prod",))
    assert key not in invoke(tmp_path, "keys", "list").stdout
    (listed,) = json.loads(invoke(tmp_path, "keys", "list", "--json").stdout)
    assert (listed["name"], listed["id"], "hash" in listed) == ("airflow", key.split("_")[1], False)
    assert invoke(tmp_path, "keys", "revoke", "airflow").exit_code == 0
    assert KeyFile(tmp_path / "keys.json").grant(key) is None


def test_a_key_is_told_as_json(tmp_path: Path) -> None:
    told = json.loads(invoke(tmp_path, "keys", "add", "airflow", "--json").stdout)
    assert (told["name"], told["scopes"]) == ("airflow", ["write"])
    assert KeyFile(tmp_path / "keys.json").grant(told["key"]) is not None
    assert json.loads(invoke(tmp_path, "keys", "revoke", "airflow", "--json").stdout) == {"revoked": "airflow"}


def test_keys_are_for_sending_unless_told_otherwise(tmp_path: Path) -> None:
    invoke(tmp_path, "keys", "add", "airflow")
    shown = invoke(tmp_path, "keys", "list").stdout.splitlines()
    assert shown[1].split()[2:4] == ["write", "all"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--host", "0.0.0.0"], "0.0.0.0 can be reached from other machines, and there are no keys"),
        (["--host", "::"], ":: can be reached from other machines"),
        (["--require-key"], "There are no keys to ask for"),
        (["--jwks", "keys.json"], "--jwks, --jwt-issuer and --jwt-audience belong together"),
        (["--tls-key", "key.pem"], "--tls-cert and --tls-key belong together"),
        (["--tls-cert", "no.pem", "--tls-key", "no.pem"], "TLS cannot be spoken with no.pem and no.pem"),
    ],
)
def test_a_collector_that_could_not_tell_who_sends_does_not_start(
    options: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=sentence.replace(".", r"\.")):
        invoke(tmp_path / "home", "collect", *options)
