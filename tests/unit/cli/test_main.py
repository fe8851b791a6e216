"""Tests of the command line: output streams, exit codes, and error messages without a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from clew import __main__, __version__
from clew.cli.main import _COMMANDS, _Command, cli
from clew.errors import ClewError

Run = Callable[..., tuple[int, str, str]]


def invoke(*arguments: str, home: Path | None = None) -> Result:
    return CliRunner().invoke(cli, [*arguments, *(["--home", str(home)] if home else [])], catch_exceptions=False)


@pytest.fixture
def clew(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that calls the entry point and returns exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["clew", *arguments])
        with pytest.raises(SystemExit) as exit_info:
            __main__.main()
        output = capsys.readouterr()
        code = exit_info.value.code
        return code if isinstance(code, int) else 0, output.out, output.err

    return run


def test_help_lists_every_command() -> None:
    help_text = invoke("--help").stdout
    for name in _COMMANDS:
        assert f"\n  {name} " in help_text


@pytest.mark.parametrize("name", _COMMANDS)
def test_every_listed_command_exists(name: str) -> None:
    result = invoke(name, "--help")
    assert result.exit_code == 0
    assert "Usage: " in result.stdout


def test_version_option_prints_version(clew: Run) -> None:
    assert clew("--version") == (0, f"clew, version {__version__}\n", "")


def test_show_defaults_to_latest_run(orders: Any) -> None:
    result = invoke("show", home=orders.index.parent)
    assert result.exit_code == 0
    for part in (
        "orders.py  5 cells · 1 failed · 130 ms in cells · peak 120 MB · 5 operations  session aaaa1111",
        "Slowest cell: cell 1 load, 90 ms, 69% of the run",
        "fail, KeyError: 'prise'",
        "Read: orders.csv (? × 0)",
        "Wrote: totals.parquet (7 × 1)",
        "df 7 × 2",
    ):
        assert part in result.stdout
    assert result.stderr == ""


def test_show_json_contains_whole_run(orders: Any) -> None:
    run = json.loads(invoke("show", "aaaa1111", "--json", home=orders.index.parent).stdout)
    assert (run["session_id"], len(run["cells"]), len(run["edges"])) == ("aaaa1111", 5, 8)


def test_upstream_of_column_prints_tree_with_code_of_each_step(orders: Any) -> None:
    lines = invoke("upstream", "totals.parquet.sum", home=orders.index.parent).stdout.splitlines()
    assert [line.strip(" │├└─") for line in lines] == [
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


def test_upstream_json_contains_tree_up_to_depth(orders: Any) -> None:
    step = json.loads(
        invoke("upstream", "totals.parquet.sum", "--depth", "1", "--json", home=orders.index.parent).stdout
    )
    assert (step["column"], [source["column"] for source in step["upstream"]]) == ("sum", ["sum"])
    assert step["upstream"][0]["upstream"] == []


def test_upstream_of_dataset_job_or_run_traverses_graph(orders: Any) -> None:
    home = orders.index.parent
    lineage = json.loads(invoke("upstream", "totals.parquet", "--json", home=home).stdout)
    last = lineage["nodes"][-1]
    assert (lineage["direction"], last["name"], last["distance"]) == ("upstream", "/data/orders.csv", -4)
    job = lineage["nodes"][1]["id"]
    assert json.loads(invoke("upstream", job, "--json", home=home).stdout)["start"] == job
    run = json.loads(invoke("runs", "--json", home=home).stdout)[0]["run_uuid"]
    assert json.loads(invoke("upstream", run, "--json", home=home).stdout)["start"] == f"run:{run}"
    assert (
        invoke("upstream", "totals.parquet", home=home).stdout.splitlines()[-1].strip(" │├└─").split()[0]
        == "orders.csv"
    )


USER_ERRORS = {
    "unknown session": (["show", "ffff0000"], 2, "There is no notebook or session 'ffff0000'.\n"),
    "unknown column": (["upstream", "totals.parquet.summ"], 2, "Did you mean sum?\n"),
    "zero depth": (["upstream", "totals.sum", "--depth", "0"], 2, "Invalid value for '--depth'"),
    "malformed depth": (["upstream", "totals.sum", "--depth", "x"], 2, "Invalid value for '--depth'"),
    "malformed setting": (["pipeline", "run", "--conf", "spark.x"], 2, "Invalid --conf 'spark.x'.\n"),
    "setting without a key": (["pipeline", "run", "--conf", "=x"], 2, "Use --conf spark.some.key=value.\n"),
    "missing file": (
        ["pipeline", "run", "--from", "nowhere.ndjson"],
        2,
        "No such file or folder: nowhere.ndjson.\n",
    ),
    "rebuild without lake": (["index", "rebuild"], 1, "There is no lake at "),
    "status without lake": (["pipeline", "status"], 1, "There is no lake at "),
    "compact without lake": (["pipeline", "compact"], 1, "It is created by the first `clew pipeline run`."),
    "replay without lake": (["pipeline", "replay"], 1, "There is no lake at "),
    "unknown reason": (["pipeline", "replay", "--reason", "mood"], 2, "'mood' is not one of 'not_json'"),
    "retention too short": (["pipeline", "compact", "--retention-hours", "0"], 2, "or add --force if nothing reads"),
    "unknown command": (["shwo"], 2, "No such command 'shwo'"),
    "unknown option": (["show", "--jsn"], 2, "No such option"),
    "missing argument": (["upstream"], 2, "Missing argument 'NAME'"),
}


@pytest.mark.parametrize(("arguments", "code", "message"), USER_ERRORS.values(), ids=USER_ERRORS)
def test_user_error_prints_message_without_traceback(
    arguments: list[str], code: int, message: str, orders: Any, clew: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLEW_HOME", str(orders.index.parent))
    exit_code, out, err = clew(*arguments)
    assert (exit_code, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["show"], ["show", "aaaa1111"], ["upstream", "a.b"], ["show", "--json"]])
def test_missing_index_error_has_hint(arguments: list[str], tmp_path: Path, clew: Run) -> None:
    code, out, err = clew(*arguments, "--home", str(tmp_path))
    assert (code, out) == (1, "")
    assert err.startswith(f"clew: There is no index at {tmp_path / 'index.sqlite'}.\nRun `clew demo`")


def test_empty_index_error_is_printed(notebook_events: Any, clew: Run) -> None:
    notebook_events.index_events()
    code, _, err = clew("show", "--home", str(notebook_events.index.parent))
    assert (code, err.splitlines()[0]) == (1, "clew: No notebook run was recorded yet.")


def test_unwritable_home_is_reported(tmp_path: Path, clew: Run) -> None:
    (tmp_path / "file").touch()
    code, _, err = clew("pipeline", "run", "--home", str(tmp_path / "file"))
    assert code == 1
    assert f"Cannot write to the data directory {tmp_path / 'file'}: File exists." in err


def test_failed_rebuild_leaves_index_in_place(orders: Any, clew: Run) -> None:
    home = orders.index.parent
    (home / "lake").mkdir()
    (home / "lake" / "manifest.json").write_text('{"format_version": 99}')
    code, _, err = clew("index", "rebuild", "--home", str(home))
    assert code == 1
    assert "has format 99" in err
    assert orders.index.exists()


# Run in a subprocess, in which one module cannot be imported.
BLOCK_MODULE = """
import sys
blocked = sys.argv.pop(1)
class BlockingFinder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, BlockingFinder())
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
        ("pyspark", "index rebuild", "spark"),
        ("pyspark", "pipeline run", "spark"),
        ("deltalake", "pipeline status", "spark"),
    ],
)
def test_missing_extra_is_named(module: str, command: str, extra: str) -> None:
    arguments = [sys.executable, "-c", BLOCK_MODULE, module, *command.split()]
    process = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stderr == (
        f"clew: This needs the module '{module}', which is not installed.\nInstall it: pip install 'clew[{extra}]'\n"
    )


def test_other_import_error_is_not_reported_as_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_COMMANDS, "absent", _Command("absent", "absent_command", "Missing module."))
    with pytest.raises(ModuleNotFoundError, match=r"clew\.cli\.absent"):
        invoke("absent")


def test_ctrl_c_exits_silently(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clew: Run) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("clew.cli.commands.runs.LineageService.find_session", interrupt)
    assert clew("show", "--home", str(tmp_path)) == (130, "", "")


def test_unexpected_error_is_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("clew.cli.commands.runs.LineageService.find_session", fail)
    with pytest.raises(ZeroDivisionError):
        invoke("show", home=tmp_path)


def test_error_text_includes_hint() -> None:
    assert str(ClewError("Problem.", hint="Solution.")) == "Problem.\nSolution."
    assert str(ClewError("Problem.")) == "Problem."


@pytest.mark.parametrize("sound_pages", [1, 12])
def test_a_damaged_index_is_one_sentence(sound_pages: int, orders: Any, clew: Run) -> None:
    path: Path = orders.index
    content, sound_bytes = path.read_bytes(), sound_pages * (8 << 10)
    path.write_bytes(content[:sound_bytes] + b"\xa5" * (len(content) - sound_bytes))
    code, output, errors = clew("show", "--home", str(path.parent))
    assert (code, output) == (1, "")
    assert "cannot be read: database disk image is malformed." in errors
    assert "clew index rebuild" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(("command", "mask"), [("keys list", 0o077), ("pipeline status", 0o077), ("config", 0o022)])
def test_files_in_the_data_directory_are_private(command: str, mask: int, tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        CliRunner().invoke(cli, [*command.split(), "--home", str(tmp_path)])
        assert os.umask(0o022) == mask
    finally:
        os.umask(old)
