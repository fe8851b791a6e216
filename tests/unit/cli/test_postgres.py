"""Commands whose index is in PostgreSQL, as a variable, a file or a flag says."""

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
def story(place: Any, story: Any) -> Any:
    """A story that is told to a file, then one that is told to a database."""
    story.index = place
    return story


def test_answers_are_the_same_wherever_the_index_is(
    orders: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not isinstance(orders.index, Path):
        monkeypatch.setenv("CLEW_INDEX", orders.index.text)
    home = ("--home", str(tmp_path))
    shown = json.loads(invoke("upstream", "totals.parquet.sum", "--json", *home).stdout)
    assert shown["upstream"][0]["dataset"]["name"] == "orders/totals"
    assert "totals" in invoke("show", *home).stdout
    assert invoke("runs", *home).exit_code == 0
    (found,) = (one for one in json.loads(invoke("doctor", "--json", *home).stdout) if one["name"] == "index")
    assert found["state"] == "ok"


READING = (
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


def test_commands_that_read_take_a_flag(orders: Any, tmp_path: Path) -> None:
    flags = () if isinstance(orders.index, Path) else ("--index", orders.index.text)
    for command in READING:
        ended = invoke(*command.split(), "--home", str(tmp_path), *flags)
        assert (command, ended.exit_code, bool(ended.stdout)) == (command, 0, True)


def test_a_file_names_it_and_a_flag_has_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clew.toml").write_text('index = "postgresql://me@127.0.0.1:1/file"')
    code, err = clew("show")
    assert (code, "The index postgresql://me@127.0.0.1:1/file does not answer: " in err) == (1, True)
    code, err = clew("doctor", "--index", "postgresql://me@127.0.0.1:1/flag")
    assert code == 1
    code, err = clew("doctor", "--index", "mysql://db")
    assert (code, "The index cannot be at 'mysql://db'.\nGive a URL: postgresql://" in err) == (2, True)


def clew(*arguments: str) -> tuple[int, str]:
    ended = subprocess.run([sys.executable, "-m", "clew", *arguments], capture_output=True, text=True, check=False)
    return ended.returncode, ended.stderr


WITHOUT_A_URL = """
import sys
from pathlib import Path
from clew.index.sink import IndexSink
from clew.query.answers import Answers

with IndexSink(Path("index.sqlite")), Answers(Path("index.sqlite")) as answers:
    assert answers.runs() == []
assert "psycopg" not in sys.modules
"""


def test_without_a_url_psycopg_is_not_loaded(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_A_URL], check=True, cwd=tmp_path)
