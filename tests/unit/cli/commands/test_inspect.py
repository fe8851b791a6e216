"""Tests of `clew config`, `clew doctor` and `clew completion`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from clew.cli.main import cli
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.facets import FacetOrder
from clew.events.streams import Stream
from clew.index.writer import IndexWriter
from clew.lake.data_files import FileWriter
from clew.lake.lake import BatchId, Lake
from clew.lake.schemas import REJECTED_EVENTS
from clew.pipeline.checkpoint import BatchRecord, Checkpoint, SourceOffset, append_batch_record
from clew.server.auth import KeyFile, Scope


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), catch_exceptions=False)


def test_config_shows_values_and_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clew.toml").write_text('home = "lineage"\nmaster = "local[4]"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLEW_JAVA", "system")
    monkeypatch.setenv("CLEW_INDEX", "postgresql://me:secret@db/clew")
    settings = json.loads(invoke("config", "--master", "local[1]", "--json").stdout)
    assert {setting["name"]: (setting["value"], setting["source"]) for setting in settings} == {
        "home": (str(tmp_path / "lineage"), str(tmp_path / "clew.toml")),
        "lake": (str(tmp_path / "lineage" / "lake"), "default"),
        "index": ("postgresql://me@db/clew", "CLEW_INDEX"),
        "invalid_events": ("reject", "default"),
        "java": ("system", "CLEW_JAVA"),
        "kafka_config": (None, "default"),
        "master": ("local[1]", "flag"),
        "metrics": ("all", "default"),
        "spec": (None, "default"),
    }
    assert "local[4]" in invoke("config").stdout


def run_doctor(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = invoke("doctor", "--json", *arguments)
    return result.exit_code, {check["name"]: check for check in json.loads(result.stdout)}


def test_doctor_passes(orders: Any) -> None:
    code, checks = run_doctor("--home", str(orders.index.parent))
    assert code == 0
    assert {checks[name]["state"] for name in ("python", "spark", "java", "home", "index")} == {"ok"}
    assert (checks["lake"]["state"], checks["lake"]["hint"]) == ("warning", "Run `clew pipeline run`.")
    assert "index" in invoke("doctor", "--home", str(orders.index.parent)).stdout


def test_doctor_finds_damaged_files(tmp_path: Path) -> None:
    home = DataDir(tmp_path / "home").create()
    Lake(home.lake).create_or_validate()
    with IndexWriter(home.index):
        pass
    assert run_doctor("--home", str(home.root))[0] == 0
    (home.lake_folder / "run_facets" / "_delta_log" / f"{0:020}.json").write_bytes(b"")
    content = home.index_file.read_bytes()
    home.index_file.write_bytes(content[:20_000] + bytes(40_000) + content[60_000:])
    (home.checkpoint / "log" / "offsets").mkdir(parents=True)
    (home.checkpoint / "log" / "offsets" / "0").write_bytes(b"")
    code, checks = run_doctor("--home", str(home.root))
    assert code == 1
    assert {checks[name]["state"] for name in ("lake", "index", "checkpoint")} == {"error"}
    assert f"run_facets/_delta_log/{0:020}.json is empty" in checks["lake"]["detail"]
    assert checks["lake"]["hint"] == "Run `clew doctor --repair`."


def test_a_damaged_data_file_is_reported_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "part-1.parquet"
    path.write_bytes(bytes(1000))
    for content in (bytes(1000), None):
        path.write_bytes(content) if content else path.unlink()
        monkeypatch.setattr("clew.cli.commands.inspect.run_checks", lambda *_, **__: [pq.read_table(path)])
        with pytest.raises(ClewError, match=r"(?s)The lake cannot be read: .*part-1.parquet.*doctor --repair"):
            invoke("doctor", "--home", str(tmp_path))


def damage_by_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def damage_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "garbage": lambda path: path.write_bytes(b"\xff\xfe garbage \x00\n" * 20),
    "folder": damage_by_folder,
    "loop": damage_by_loop,
}
COMMANDS = ("doctor", "pipeline status", "keys list", "search orders", "runs")


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damaged_file_ends_a_command_with_a_traceback(damage: str, tmp_path: Path) -> None:
    """Each file of a data directory is damaged in turn."""
    home = DataDir(tmp_path / "intact").create()
    Lake(home.lake).create_or_validate()
    with IndexWriter(home.index, FacetOrder.RECEIVED), LogWriter(home.log) as log:
        log.append([IncomingEvent(Stream.OPENLINEAGE, "test", b"{}")])
    KeyFile(home.keys).add("key", [Scope.READ])
    checkpoint = Checkpoint(home.checkpoint)
    checkpoint.restart(SourceOffset(0))
    checkpoint.record_plan(0)
    append_batch_record(home.checkpoint, BatchRecord("app", 0, 0, 0.0, 0, 0, 0, {}, 0))
    (home.lake_folder / ".lock").touch()
    (home.checkpoint / "lake.json").write_text('{"id": "x", "path": "/"}')
    (home.root / "supervisor.json").write_text('{"supervisor_pid": 1, "is_running": true}')
    invoke("search", "orders", "--home", str(home.root))
    # One table is enough.
    files = [path.relative_to(home.root) for path in home.root.rglob("*") if path.is_file()]
    tables = {path.parts[1] for path in files if len(path.parts) > 2 and path.parts[0] == "lake"} - {"lineage_events"}
    files = [path for path in files if not set(path.parts) & tables]
    assert len(files) > 12
    for number, file in enumerate(files):
        copy = tmp_path / str(number)
        shutil.copytree(home.root, copy)
        DAMAGES[damage](copy / file)
        for command in COMMANDS:
            result = CliRunner().invoke(cli, [*command.split(), "--home", str(copy)])
            assert isinstance(result.exception, ClewError | SystemExit | None), (file, command, result.exc_info)


def test_doctor_reads_all_pages_of_a_small_lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = DataDir(tmp_path).create()
    lake = Lake(home.lake)
    lake.create_or_validate()
    rows = pa.RecordBatch.from_pylist([{"body": bytes(range(256)) * 40, "seq": 1}], schema=REJECTED_EVENTS.schema)
    writer = FileWriter(str(home.lake), {})
    files = [*writer.add({REJECTED_EVENTS.name: rows}), *writer.flush()]
    lake.append(REJECTED_EVENTS.name, REJECTED_EVENTS.schema, files, BatchId("app", 0))
    path = home.lake_folder / REJECTED_EVENTS.name / files[0].name
    content = path.read_bytes()
    middle = len(content) // 4
    path.write_bytes(content[:middle] + bytes(8) + content[middle + 8 :])
    assert run_doctor("--home", str(home.root))[1]["lake"]["detail"] == f"The file {path} is damaged."
    monkeypatch.setattr("clew.cli.commands.inspect._MAX_READ_BYTES", 0)
    assert run_doctor("--home", str(home.root))[1]["lake"]["state"] == "ok"
    assert run_doctor("--deep", "--home", str(home.root))[1]["lake"]["state"] == "error"


def test_doctor_warns_about_missing_home(tmp_path: Path) -> None:
    code, checks = run_doctor("--home", str(tmp_path / "none"))
    assert code == 0
    assert {checks[name]["state"] for name in ("home", "lake", "index")} == {"warning"}
    assert not (tmp_path / "none").exists()


def test_doctor_reports_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than the header of a SQLite file.
    (tmp_path / "index.sqlite").write_text("not a database" * 100)
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "manifest.json").write_text('{"format_version": 99}')
    monkeypatch.setenv("CLEW_JAVA", "graal")
    code, checks = run_doctor("--home", str(tmp_path))
    assert code == 1
    assert {name for name, check in checks.items() if check["state"] == "error"} == {"java", "lake", "index"}
    assert "has format 99" in checks["lake"]["detail"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_script(shell: str) -> None:
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
def test_shell_completes_names(words: str, expected: set[str], orders: Any) -> None:
    environment = {
        **os.environ,
        "_CLEW_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "CLEW_HOME": str(orders.index.parent),
    }
    program = "import sys; sys.argv[0] = 'clew'; from clew.__main__ import main; main()"
    process = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert {line.partition(",")[2] for line in process.stdout.split()} == expected


def test_completion_without_index_is_empty(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "_CLEW_COMPLETE": "bash_complete",
        "COMP_WORDS": "clew show a",
        "COMP_CWORD": "2",
        "CLEW_HOME": str(tmp_path),
    }
    program = "import sys; sys.argv[0] = 'clew'; from clew.__main__ import main; main()"
    process = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert (process.stdout.strip(), process.stderr) == ("", "")
