"""`clew config`, `clew doctor` and `clew completion`: what clew finds around it, and what a shell finds in clew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def test_config_says_what_counts_and_who_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clew.toml").write_text('home = "lineage"\nmaster = "local[4]"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_JAVA", "system")
    monkeypatch.setenv("CLEW_INDEX", "postgresql://me:secret@db/clew")
    shown = {one["name"]: one for one in json.loads(invoke("config", "--master", "local[1]", "--json").stdout)}
    assert {name: (one["value"], one["origin"]) for name, one in shown.items()} == {
        "home": (str(tmp_path / "lineage"), str(tmp_path / "clew.toml")),
        "lake": (str(tmp_path / "lineage" / "lake"), "default"),
        "index": ("postgresql://me@db/clew", "CLEW_INDEX"),
        "java": ("system", "CLEW_JAVA"),
        "master": ("local[1]", "flag"),
        "metrics": ("all", "default"),
        "spec": (None, "default"),
    }
    assert "local[4]" in invoke("config").stdout


def checks(*arguments: str) -> tuple[int, dict[str, Any]]:
    ended = invoke("doctor", "--json", *arguments)
    return ended.exit_code, {check["name"]: check for check in json.loads(ended.stdout)}


def test_doctor_finds_all_in_order(orders: Any) -> None:
    code, found = checks("--home", str(orders.index.parent))
    assert code == 0
    assert {found[name]["state"] for name in ("python", "spark", "java", "home", "index")} == {"ok"}
    assert (found["lake"]["state"], found["lake"]["hint"]) == ("note", "Run `clew pipeline run`.")
    assert "index" in invoke("doctor", "--home", str(orders.index.parent)).stdout


def test_doctor_of_a_home_that_is_not_there_yet(tmp_path: Path) -> None:
    code, found = checks("--home", str(tmp_path / "none"))
    assert code == 0
    assert {found[name]["state"] for name in ("home", "lake", "index")} == {"note"}
    assert not (tmp_path / "none").exists()


def test_doctor_says_what_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "index.sqlite").write_text("not a database, and long enough to be taken for one" * 100)
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "clew.json").write_text('{"format": 99}')
    monkeypatch.setenv("CLEW_JAVA", "graal")
    code, found = checks("--home", str(tmp_path))
    assert code == 1
    assert {name for name, check in found.items() if check["state"] == "fault"} == {"java", "lake", "index"}
    assert "has format 99" in found["lake"]["detail"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    assert f"_CLEW_COMPLETE={shell}_complete" in invoke("completion", shell).stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("clew sh", {"show"}),
        ("clew show --ho", {"--home"}),
        ("clew show aa", {"aaaa1111"}),
        ("clew upstream tot", {"totals.", "totals.parquet."}),
        ("clew upstream totals.parquet.", {"totals.parquet.sum"}),
        ("clew upstream nothing.", set()),
    ],
)
def test_a_shell_completes_names(words: str, expected: set[str], orders: Any) -> None:
    environment = {
        **os.environ,
        "_CLEW_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "CLEW_HOME": str(orders.index.parent),
    }
    program = "import sys; sys.argv[0] = 'clew'; from clew.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert {line.partition(",")[2] for line in ended.stdout.split()} == expected


def test_without_an_index_no_names_are_completed(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "_CLEW_COMPLETE": "bash_complete",
        "COMP_WORDS": "clew show a",
        "COMP_CWORD": "2",
        "CLEW_HOME": str(tmp_path),
    }
    program = "import sys; sys.argv[0] = 'clew'; from clew.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert (ended.stdout.strip(), ended.stderr) == ("", "")
