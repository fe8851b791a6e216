"""Tests of commands with an index in PostgreSQL, set by environment variable, clew.toml or flag."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, catch_exceptions=False)


@pytest.fixture
def notebook_events(index_location: Any, notebook_events: Any) -> Any:
    """Index the events in a SQLite file and in a PostgreSQL database."""
    notebook_events.index = index_location
    return notebook_events


def test_results_are_the_same_for_both_backends(orders: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not isinstance(orders.index, Path):
        monkeypatch.setenv("CLEW_INDEX", orders.index.text)
    home = ("--home", str(tmp_path))
    step = json.loads(invoke("upstream", "totals.parquet.sum", "--json", *home).stdout)
    assert step["upstream"][0]["dataset"]["name"] == "orders/totals"
    assert "totals" in invoke("show", *home).stdout
    assert invoke("runs", *home).exit_code == 0
    (check,) = (check for check in json.loads(invoke("doctor", "--json", *home).stdout) if check["name"] == "index")
    assert check["state"] == "ok"


@pytest.mark.parametrize(
    "command",
    ["runs --limit", "search a --limit", "report performance --limit", "pipeline compact --retention-hours"],
)
def test_rejects_numbers_that_are_too_large(command: str, tmp_path: Path) -> None:
    result = invoke(*command.split(), "9" * 30, "--home", str(tmp_path))
    assert result.exit_code == 2
    assert "is not in the range" in result.stderr


READ_COMMANDS = (
    "facets dataset file /data/totals.parquet",
    "facets job marimo orders",
    "runs",
    "show",
    "upstream totals.parquet.sum",
    "downstream dataset:file:/data/orders.csv",
    "path dataset:file:/data/orders.csv dataset:file:/data/totals.parquet",
    "impact orders.csv.price",
    "search totals",
    "report performance",
    "report audit",
    "report quality totals.parquet",
    "report documentation",
)


def test_read_commands_accept_index_flag(orders: Any, tmp_path: Path) -> None:
    flags = () if isinstance(orders.index, Path) else ("--index", orders.index.text)
    for command in READ_COMMANDS:
        result = invoke(*command.split(), "--home", str(tmp_path), *flags)
        assert (command, result.exit_code, bool(result.stdout)) == (command, 0, True)


def test_index_flag_overrides_config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clew.toml").write_text('index = "postgresql://me@127.0.0.1:1/file"')
    code, err = clew("show")
    assert (code, "Cannot connect to the index postgresql://me@127.0.0.1:1/file: " in err) == (1, True)
    code, err = clew("doctor", "--index", "postgresql://me@127.0.0.1:1/flag")
    assert code == 1
    code, err = clew("doctor", "--index", "mysql://db")
    assert (code, "Invalid index location 'mysql://db'.\nUse postgresql://" in err) == (2, True)


def clew(*arguments: str) -> tuple[int, str]:
    process = subprocess.run([sys.executable, "-m", "clew", *arguments], capture_output=True, text=True, check=False)
    return process.returncode, process.stderr


USE_SQLITE_INDEX = """
import sys
from pathlib import Path
from clew.index.writer import IndexWriter
from clew.query.service import LineageService

with IndexWriter(Path("index.sqlite")), LineageService.open(Path("index.sqlite")) as service:
    assert service.list_sessions() == []
assert "psycopg" not in sys.modules
"""


def test_psycopg_is_not_imported_for_sqlite_index(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", USE_SQLITE_INDEX], check=True, cwd=tmp_path)
