"""Tests of `clew import` without Spark: bad sources, and the choice of the command by the URL."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.support.marquez_database import MarquezDatabase, create_database, run_event

from clew.cli.main import cli
from clew.data_dir import DataDir
from clew.eventlog.segments import end_position


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["import", *arguments], catch_exceptions=True)
    return result.exit_code, f"{result.output}{result.exception or ''}"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("mysql://host/marquez", "neither a PostgreSQL nor an HTTP URL"),
        ("marquez", "neither a PostgreSQL nor an HTTP URL"),
        ("postgresql://host:port/marquez", "is malformed"),
        ("http://", "is malformed"),
    ],
)
@pytest.mark.parametrize("command", ["marquez", "compare"])
def test_bad_sources_are_rejected(command: str, source: str, message: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    DataDir(home).create()
    code, output = invoke(command, source, "--home", str(home))
    assert code != 0
    assert message in output


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    _, output = invoke("marquez", "mysql://user:secret@host/db", "--home", str(tmp_path))
    assert "secret" not in output


def test_a_database_without_marquez_is_rejected(postgres: str, tmp_path: Path) -> None:
    code, output = invoke(create_database(postgres), "--dry-run", "--home", str(tmp_path))
    assert code != 0
    assert "it has no table lineage_events" in output


def test_a_dry_run_writes_nothing(postgres: str, tmp_path: Path) -> None:
    database = MarquezDatabase(create_database(postgres))
    database.store([run_event(number) for number in range(3)])
    code, output = invoke(database.url, "--dry-run", "--home", str(tmp_path / "home"))
    assert (code, "3 events" in output) == (0, True), output
    assert not (tmp_path / "home").exists()


def test_files_are_appended_without_spark(tmp_path: Path) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text(json.dumps(run_event(1)))
    code, output = invoke("files", str(file), "--no-ingest", "--home", str(tmp_path / "home"))
    assert (code, "Imported 1 event" in output) == (0, True), output
    assert end_position(DataDir(tmp_path / "home").log) > 0


def test_an_export_needs_a_new_folder(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["export", "all", "--home", str(tmp_path)])
    assert result.exit_code != 0
    assert "needs a folder" in f"{result.output}{result.exception}"
