"""Tests of output to a closed pipe and to terminals that are narrow, without colour or ASCII only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.support.event_generator import Scenario

from clew.cli.main import cli
from clew.errors import ClewError, UsageError


def invoke(*arguments: str, home: Path) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--home", str(home)], catch_exceptions=False)


def start_clew(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "clew", *arguments], stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["show", "--json"],
        ["upstream", "totals.parquet.sum"],
        ["export", "orders.csv", "--format", "svg"],
        ["--help"],
    ],
)
def test_closed_pipe_is_not_an_error(arguments: list[str], orders: Any) -> None:
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "CLEW_HOME": str(orders.index.parent)}
    with start_clew(*arguments, stdout=write, env=environment) as process:
        os.close(write)
        _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (0, b"")


def run_on_terminal(*arguments: str, **environment: str) -> str:
    """Return the output of a command on a pseudo-terminal."""
    controller, terminal = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLORTERM"}}
    process = start_clew(*arguments, stdout=terminal, env={**clean, "TERM": "xterm-256color", **environment})
    os.close(terminal)
    output = b""
    try:
        while chunk := os.read(controller, 4096):
            output += chunk
    except OSError:
        # Linux: the other end was closed.
        pass
    finally:
        os.close(controller)
    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    process.stderr.close()
    return output.decode()


@pytest.mark.parametrize(
    ("environment", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_depends_on_environment(environment: dict[str, str], is_coloured: bool, orders: Any) -> None:
    output = run_on_terminal("show", "--home", str(orders.index.parent), **environment)
    assert "orders.py" in output
    assert ("\x1b[31m" in output) is is_coloured
    assert "\x1b[3" not in output or is_coloured


def test_pipe_has_no_colour(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" not in invoke("show", home=orders.index.parent).stdout


@pytest.fixture
def umlauts(tmp_path: Path) -> Path:
    """Index non-ASCII names, and two datasets with the same last segment."""
    scenario = Scenario(tmp_path)
    columns = {"file:/out/umsätze.csv": {"größe": "file:/a/orders.csv.price"}}
    error = {"errorMessage": {"message": "kaputt → ✗", "programmingLanguage": "python"}}
    inputs = "file:/a/orders.csv file:/b/orders.csv"
    scenario.run("läden", inputs, "file:/out/umsätze.csv", columns=columns, kind="FAIL", run_facets=error)
    scenario.run("bericht", "file:/out/umsätze.csv", "bericht", facets={"documentation": {"description": "日本語"}})
    scenario.index_events()
    return tmp_path


READ_COMMANDS = [
    ["runs"],
    ["upstream", "umsätze.csv.größe"],
    ["upstream", "umsätze.csv"],
    ["downstream", "a/orders.csv"],
    ["path", "umsätze.csv", "db:bericht"],
    ["impact", "a/orders.csv.price"],
    ["search", "umsätze"],
    ["export", "umsätze.csv", "--format", "dot"],
    ["report", "quality", "umsätze.csv"],
    ["facets", "job", "jobs", "bericht"],
]


@pytest.mark.parametrize("arguments", READ_COMMANDS, ids=" ".join)
def test_ascii_terminal_shows_non_ascii_names(arguments: list[str], umlauts: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "CLEW_HOME": str(umlauts)}
    with start_clew(*arguments, stdout=subprocess.PIPE, env=environment) as process:
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert stdout
    assert b"Traceback" not in stderr


def test_undecodable_argument_is_reported(umlauts: Path) -> None:
    with pytest.raises(UsageError, match="is not valid text in the encoding of this terminal"):
        invoke("downstream", "ums\udce4tze.csv", home=umlauts)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["downstream", "orders.csv"], "'orders.csv' matches 2 datasets: file:/a/orders.csv, file:/b/orders.csv."),
        (["upstream", "umsaetze.csv.größe"], "Did you mean umsätze.csv"),
        (["downstream", "lädn"], "Did you mean läden?"),
        (["impact", "läden"], "A job has no columns."),
        (["facets", "job", "jobs", "berict"], "Did you mean jobs:bericht"),
        (["diff", "abc", "def"], "`clew runs` lists the runs."),
        (["report", "documentation"], "No notebook run was recorded yet."),
    ],
)
def test_unknown_name_is_reported_with_suggestion(arguments: list[str], message: str, umlauts: Path) -> None:
    with pytest.raises(ClewError) as raised:
        invoke(*arguments, home=umlauts)
    assert message in str(raised.value)


def test_narrow_terminal_shows_all_columns(umlauts: Path) -> None:
    output = run_on_terminal("runs", "--home", str(umlauts), COLUMNS="40")
    assert Scenario.run_id("läden 0") in output
    assert "kaputt" in output
