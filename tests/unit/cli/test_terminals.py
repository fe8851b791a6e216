"""Whoever reads what commands print: a closed pipe, a terminal without colour, narrow, or that knows ASCII only."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.unit.worlds import World

from clew.cli.main import cli
from clew.errors import ClewError, UsageError


def invoke(*arguments: str, home: Path) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--home", str(home)], catch_exceptions=False)


def started(*arguments: str, **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "clew", *arguments], stderr=subprocess.PIPE, **more)


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
def test_a_reader_that_has_gone_is_no_fault(arguments: list[str], orders: Any) -> None:
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "CLEW_HOME": str(orders.index.parent)}
    with started(*arguments, stdout=write, env=environment) as process:
        os.close(write)
        _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, b"")


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR", "COLORTERM"}}
    process = started(*arguments, stdout=theirs, env={**clean, "TERM": "xterm-256color", **environment})
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:
        # Linux: the other end was closed.
        pass
    finally:
        os.close(ours)
    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    process.stderr.close()
    return written.decode()


@pytest.mark.parametrize(
    ("environment", "is_coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colour_only_where_it_is_wanted(environment: dict[str, str], is_coloured: bool, orders: Any) -> None:
    shown = on_a_terminal("show", "--home", str(orders.index.parent), **environment)
    assert "orders.py" in shown
    assert ("\x1b[31m" in shown) is is_coloured
    assert "\x1b[3" not in shown or is_coloured


def test_no_colour_in_a_pipe(orders: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b" not in invoke("show", home=orders.index.parent).stdout


@pytest.fixture
def umlauts(tmp_path: Path) -> Path:
    """A home in which names are not ASCII, and one name is two datasets'."""
    world = World(tmp_path)
    columns = {"file:/out/umsätze.csv": {"größe": "file:/a/orders.csv.price"}}
    error = {"errorMessage": {"message": "kaputt → ✗", "programmingLanguage": "python"}}
    inputs = "file:/a/orders.csv file:/b/orders.csv"
    world.run("läden", inputs, "file:/out/umsätze.csv", columns=columns, kind="FAIL", run_facets=error)
    world.run("bericht", "file:/out/umsätze.csv", "bericht", facets={"documentation": {"description": "日本語"}})
    world.tell()
    return tmp_path


READING = [
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


@pytest.mark.parametrize("arguments", READING, ids=" ".join)
def test_a_terminal_that_knows_no_umlauts_is_told_all_the_same(arguments: list[str], umlauts: Path) -> None:
    environment = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "CLEW_HOME": str(umlauts)}
    with started(*arguments, stdout=subprocess.PIPE, env=environment) as process:
        out, told = process.communicate(timeout=60)
    assert process.returncode == 0, told
    assert out
    assert b"Traceback" not in told


def test_bytes_that_are_no_text_end_in_a_sentence(umlauts: Path) -> None:
    with pytest.raises(UsageError, match="is not text in the encoding of this terminal"):
        invoke("downstream", "ums\udce4tze.csv", home=umlauts)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["downstream", "orders.csv"], "'orders.csv' names 2 datasets: file:/a/orders.csv, file:/b/orders.csv."),
        (["upstream", "umsaetze.csv.größe"], "Did you mean umsätze.csv"),
        (["downstream", "lädn"], "Did you mean läden?"),
        (["impact", "läden"], "A job has no columns."),
        (["facets", "job", "jobs", "berict"], "Did you mean jobs:bericht"),
        (["diff", "abc", "def"], "`clew runs` lists the runs that there are."),
        (["report", "documentation"], "No notebook run was recorded yet."),
    ],
)
def test_a_name_that_is_none_is_told_what_it_could_be(arguments: list[str], sentence: str, umlauts: Path) -> None:
    with pytest.raises(ClewError) as caught:
        invoke(*arguments, home=umlauts)
    assert sentence in str(caught.value)


def test_a_narrow_terminal_loses_no_column(umlauts: Path) -> None:
    shown = on_a_terminal("runs", "--home", str(umlauts), COLUMNS="40")
    assert World.run_id("läden 0") in shown
    assert "kaputt" in shown
