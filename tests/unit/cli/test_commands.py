"""Commands as a person calls them: answers on stdout, talk on stderr, a sentence for every mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clew import __main__, __version__
from clew.cli.main import _COMMANDS, cli
from clew.errors import ClewError

Run = Callable[..., tuple[int, str, str]]


def invoke(*arguments: str, home: Path | None = None) -> Result:
    return CliRunner().invoke(cli, [*arguments, *(["--home", str(home)] if home else [])], catch_exceptions=False)


@pytest.fixture
def clew(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Call the program as its entry point does; gives exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clew", *arguments])
        with pytest.raises(SystemExit) as ended:
            __main__.main()
        told = capsys.readouterr()
        code = ended.value.code
        return code if isinstance(code, int) else 0, told.out, told.err

    return run


def test_help_lists_every_command() -> None:
    shown = invoke("--help").stdout
    for name in _COMMANDS:
        assert f"\n  {name} " in shown


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_command_that_is_listed_is_there(name: str) -> None:
    ended = invoke(name, "--help")
    assert ended.exit_code == 0
    assert "Usage: " in ended.stdout


def test_the_version_is_told(clew: Run) -> None:
    assert clew("--version") == (0, f"clew, version {__version__}\n", "")


def test_show_tells_of_the_last_run(orders: Any) -> None:
    ended = invoke("show", home=orders.index.parent)
    assert ended.exit_code == 0
    for part in (
        "orders.py  5 cells · 1 failed · 130 ms in cells · peak 120 MB · 5 operations  session aaaa1111",
        "Slowest cell: cell 1 load, 90 ms, 69% of the run",
        "fail, KeyError: 'prise'",
        "Read: orders.csv (? × 0)",
        "Wrote: totals.parquet (7 × 1)",
        "df 7 × 2",
    ):
        assert part in ended.stdout
    assert ended.stderr == ""


def test_show_json_is_the_whole_run(orders: Any) -> None:
    run = json.loads(invoke("show", "aaaa1111", "--json", home=orders.index.parent).stdout)
    assert (run["session_id"], len(run["cells"]), len(run["edges"])) == ("aaaa1111", 5, 8)


def test_upstream_shows_a_tree_with_the_code_of_each_hop(orders: Any) -> None:
    shown = invoke("upstream", "totals.parquet.sum", home=orders.index.parent).stdout.splitlines()
    assert [line.strip(" │├└─") for line in shown] == [
        "totals.parquet.sum  /data/totals.parquet",
        "cell 4 save, line 1:  totals.to_parquet(path)",
        "totals.sum  identity",
        "cell 3 total, line 1:  total()  grouped by df.id",
        "df.price  aggregation",
        "cell 2 keep, line 1:  keep()  filtered by df.id",
        "df.price  identity",
        "cell 1 load, line 1:  load()",
        "orders.csv.price  identity",
    ]


def test_upstream_json_is_the_whole_tree(orders: Any) -> None:
    hop = json.loads(
        invoke("upstream", "totals.parquet.sum", "--depth", "1", "--json", home=orders.index.parent).stdout
    )
    assert (hop["column"], [source["column"] for source in hop["upstream"]]) == ("sum", ["sum"])
    assert hop["upstream"][0]["upstream"] == []


def test_upstream_of_a_dataset_a_job_or_a_run_is_a_walk(orders: Any) -> None:
    home = orders.index.parent
    shown = json.loads(invoke("upstream", "totals.parquet", "--json", home=home).stdout)
    last = shown["nodes"][-1]
    assert (shown["direction"], last["name"], last["distance"]) == ("upstream", "/data/orders.csv", -4)
    job = shown["nodes"][1]["id"]
    assert json.loads(invoke("upstream", job, "--json", home=home).stdout)["start"] == job
    run = json.loads(invoke("runs", "--json", home=home).stdout)[0]["run_uuid"]
    assert json.loads(invoke("upstream", run, "--json", home=home).stdout)["start"] == f"run:{run}"
    assert (
        invoke("upstream", "totals.parquet", home=home).stdout.splitlines()[-1].strip(" │├└─").split()[0]
        == "orders.csv"
    )


MISTAKES = {
    "unknown session": (["show", "ffff0000"], 2, "There is no notebook session 'ffff0000'.\n"),
    "unknown column": (["upstream", "totals.parquet.summ"], 2, "Did you mean sum?\n"),
    "no depth": (["upstream", "totals.sum", "--depth", "0"], 2, "Invalid value for '--depth'"),
    "malformed depth": (["upstream", "totals.sum", "--depth", "x"], 2, "Invalid value for '--depth'"),
    "malformed setting": (["pipeline", "run", "--conf", "spark.x"], 2, "--conf 'spark.x' is no setting.\n"),
    "setting without a key": (["pipeline", "run", "--conf", "=x"], 2, "Write it as --conf spark.some.key=value.\n"),
    "missing file": (
        ["pipeline", "run", "--from", "nowhere.ndjson"],
        2,
        "There is no file or folder nowhere.ndjson.\n",
    ),
    "nothing to rebuild from": (["index", "rebuild"], 1, "There is no lake at "),
    "no lake to look at": (["pipeline", "status"], 1, "There is no lake at "),
    "no lake to tidy": (["pipeline", "compact"], 1, "It comes to be with the first `clew pipeline run`."),
    "no lake to replay from": (["pipeline", "replay"], 1, "There is no lake at "),
    "no such reason": (["pipeline", "replay", "--reason", "mood"], 2, "'mood' is not one of 'not_json'"),
    "too short a retention": (["pipeline", "compact", "--retention-hours", "0"], 2, "or add --force if nobody is"),
    "unknown command": (["shwo"], 2, "No such command 'shwo'"),
    "unknown option": (["show", "--jsn"], 2, "No such option"),
    "no argument": (["upstream"], 2, "Missing argument 'NAME'"),
}


@pytest.mark.parametrize(("arguments", "code", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_ends_in_a_sentence(
    arguments: list[str], code: int, sentence: str, orders: Any, clew: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_HOME", str(orders.index.parent))
    ended, out, err = clew(*arguments)
    assert (ended, out) == (code, "")
    assert sentence in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["show"], ["show", "aaaa1111"], ["upstream", "a.b"], ["show", "--json"]])
def test_without_an_index_it_says_how_to_get_one(arguments: list[str], tmp_path: Path, clew: Run) -> None:
    code, out, err = clew(*arguments, "--home", str(tmp_path))
    assert (code, out) == (1, "")
    assert err.startswith(f"clew: There is no index at {tmp_path / 'index.sqlite'}.\nRun `clew demo`")


def test_without_a_run_it_says_how_to_get_one(story: Any, clew: Run) -> None:
    story.tell()
    code, _, err = clew("show", "--home", str(story.index.parent))
    assert (code, err.splitlines()[0]) == (1, "clew: No notebook run was recorded yet.")


def test_a_home_that_cannot_be_written_is_a_sentence(tmp_path: Path, clew: Run) -> None:
    (tmp_path / "file").touch()
    code, _, err = clew("pipeline", "run", "--home", str(tmp_path / "file"))
    assert code == 1
    assert f"clew cannot write to its home {tmp_path / 'file'}: File exists." in err


def test_a_rebuild_that_cannot_be_done_leaves_the_index(orders: Any, clew: Run) -> None:
    home = orders.index.parent
    (home / "lake").mkdir()
    (home / "lake" / "clew.json").write_text('{"format": 99}')
    code, _, err = clew("index", "rebuild", "--home", str(home))
    assert code == 1
    assert "has format 99" in err
    assert orders.index.exists()


# Run in a process of its own, in which one module cannot be imported.
WITHOUT = """
import sys
absent = sys.argv.pop(1)
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from clew.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "command", "extra"),
    [
        ("click", "show", "cli"),
        ("rich", "show", "cli"),
        ("zstandard", "show", "spark"),
        ("pyspark", "index", "spark"),
        ("pyspark", "pipeline run", "spark"),
        ("deltalake", "pipeline status", "spark"),
    ],
)
def test_a_missing_extra_is_named(module: str, command: str, extra: str) -> None:
    arguments = [sys.executable, "-c", WITHOUT, module, *command.split()]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        f"clew: This needs the module '{module}', which is not installed.\nInstall it: pip install 'clew[{extra}]'\n"
    )


def test_another_fault_in_a_module_is_not_taken_for_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_COMMANDS, "absent", "A command whose module is not there.")
    with pytest.raises(ModuleNotFoundError, match=r"clew\.cli\.absent"):
        invoke("absent")


def test_ctrl_c_ends_without_a_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clew: Run) -> None:
    def interrupted(_: object, __: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("clew.cli.show.Answers.__init__", interrupted)
    assert clew("show", "--home", str(tmp_path)) == (130, "", "")


def test_an_unexpected_fault_is_not_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(_: object, __: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("clew.cli.show.Answers.__init__", broken)
    with pytest.raises(ZeroDivisionError):
        invoke("show", home=tmp_path)


def test_an_error_carries_its_hint() -> None:
    assert str(ClewError("What.", hint="What to do.")) == "What.\nWhat to do."
    assert str(ClewError("What.")) == "What."
