"""Tests of user errors: message, exit code and no data loss."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clew.lake.lake import Lake

pytestmark = pytest.mark.spark

EVENT = {
    "eventType": "COMPLETE",
    "eventTime": "2026-01-01T10:00:00Z",
    "run": {"runId": "01930a00-0000-7000-8000-000000000001"},
    "job": {"namespace": "shop", "name": "load"},
    "producer": "https://example.org/producer",
    "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
}
INVALID_EVENTS = [
    b'{"eventType": "START", "eventTi',
    json.dumps({"eventTime": "2026-01-01T10:00:00Z"}).encode(),
    json.dumps({**EVENT, "schemaURL": "https://openlineage.io/spec/9-0-0/OpenLineage.json"}).encode(),
    b"\xff\x00 no text at all",
]


def test_rejected_events_are_reported_and_stored(tmp_path: Path, clew: Callable[..., Any]) -> None:
    file = tmp_path / "events.ndjson"
    large_event = json.dumps(
        {**EVENT, "outputs": [{"namespace": "n", "name": "big", "facets": {"blob": {"text": "x" * 10_000_000}}}]}
    )
    file.write_bytes(b"\n".join([json.dumps(EVENT).encode(), *INVALID_EVENTS, large_event.encode()]) + b"\n")
    home = tmp_path / "home"

    result = clew("pipeline", "run", "--home", home, "--from", file)

    assert result.returncode == 1
    assert "Ingested 2 events in " in result.stderr
    assert "4 events rejected, stored in the table rejected_events:" in result.stderr
    for reason in ("not_json", "no_identity", "unknown_schema", "not_utf8"):
        assert reason in result.stderr
    assert "Traceback" not in result.stderr
    lake = Lake(home / "lake")
    rejected, accepted = lake.table("rejected_events"), lake.table("lineage_events")
    assert rejected is not None
    assert accepted is not None
    assert sorted(rejected.to_pyarrow_table()["body"].to_pylist()) == sorted(INVALID_EVENTS)
    assert sorted(map(len, accepted.to_pyarrow_table()["event"].to_pylist())) == sorted(
        [len(json.dumps(EVENT)), len(large_event)]
    )


def test_lake_of_a_newer_version_is_not_changed(tmp_path: Path, clew: Callable[..., Any]) -> None:
    manifest = tmp_path / "lake" / "manifest.json"
    manifest.parent.mkdir()
    manifest.write_text('{"format_version": 99, "written_by": "9.0.0"}')
    result = clew("pipeline", "run", "--home", tmp_path)
    assert result.returncode == 1
    assert "has format 99, written by clew 9.0.0" in result.stderr
    assert "pip install -U clew" in result.stderr
    assert sorted(path.name for path in manifest.parent.iterdir() if not path.name.startswith(".")) == ["manifest.json"]


def test_missing_java_is_reported(tmp_path: Path, clew: Callable[..., Any]) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "uname"):
        if path := shutil.which(name):
            (tools / name).symlink_to(path)
    result = clew("pipeline", "run", "--home", tmp_path / "home", CLEW_JAVA="system", PATH=str(tools), JAVA_HOME="")
    assert result.returncode == 1
    assert "No Java 17 or newer was found" in result.stderr
    assert "pip install 'clew[java]'" in result.stderr
    assert "Traceback" not in result.stderr


def _delete_table(home: Path) -> None:
    shutil.rmtree(home / "lake" / "run_facets")


def _delete_delta_log(home: Path) -> None:
    shutil.rmtree(home / "lake" / "lineage_events" / "_delta_log")


def _delete_data_file(home: Path) -> None:
    next((home / "lake" / "lineage_events").glob("*.parquet")).unlink()


def _delete_lake(home: Path) -> None:
    shutil.rmtree(home / "lake")


def _truncate_log(home: Path) -> None:
    for segment in (home / "log").glob("*.ndjson"):
        os.truncate(segment, 10)


def _truncate_log_of_unknown_end(home: Path) -> None:
    _truncate_log(home)
    (home / "log" / ".end").unlink()


@pytest.mark.parametrize(
    ("damage", "message", "hint"),
    [
        (_delete_table, "has no table run_facets", "which reads the log again"),
        (_delete_delta_log, "has no folder _delta_log", "clew doctor --repair"),
        (_delete_data_file, "lacks 1 of its", "clew doctor --repair"),
        (_delete_lake, "belongs to the lake", "--lake PATH"),
    ],
)
def test_damaged_data_directory_is_reported(
    damage: Callable[[Path], None],
    message: str,
    hint: str,
    demo_home: Path,
    tmp_path: Path,
    clew: Callable[..., Any],
) -> None:
    home = tmp_path / "home"
    shutil.copytree(demo_home, home)
    damage(home)
    result = clew("pipeline", "run", "--home", home)
    assert result.returncode == 1
    assert message in result.stderr
    assert hint in result.stderr
    assert "Traceback" not in result.stderr
    assert "Ingesting events" not in result.stderr


@pytest.mark.parametrize("damage", [_truncate_log, _truncate_log_of_unknown_end])
def test_events_after_a_truncated_log_are_ingested(
    damage: Callable[[Path], None], demo_home: Path, tmp_path: Path, clew: Callable[..., Any]
) -> None:
    home = tmp_path / "home"
    shutil.copytree(demo_home, home)
    damage(home)
    events = tmp_path / "events.ndjson"
    events.write_text(json.dumps(EVENT) + "\n")
    result = clew("pipeline", "run", "--home", home, "--from", events)
    assert result.returncode == 0, result.stderr
    assert "was cut at 0" in result.stderr
    assert "All were ingested" in result.stderr
    assert "Ingested 1 event in 1 batch." in result.stderr


@pytest.mark.parametrize("command", [("pipeline", "status"), ("pipeline", "compact"), ("index", "rebuild")])
def test_every_command_reports_a_missing_table(
    command: tuple[str, ...], demo_home: Path, tmp_path: Path, clew: Callable[..., Any]
) -> None:
    home = tmp_path / "home"
    shutil.copytree(demo_home, home)
    _delete_table(home)
    result = clew(*command, "--home", home)
    assert result.returncode == 1
    assert "has no table run_facets" in result.stderr
    assert "Traceback" not in result.stderr
    assert (home / "index.sqlite").exists()


@pytest.mark.parametrize("command", [("demo",), ("pipeline", "run")])
def test_unwritable_home_is_reported(command: tuple[str, ...], tmp_path: Path, clew: Callable[..., Any]) -> None:
    (tmp_path / "file").write_text("in the way")
    result = clew(*command, "--home", tmp_path / "file" / "home")
    assert result.returncode == 1
    assert "Cannot write to the data directory" in result.stderr
    assert "--home DIR or CLEW_HOME" in result.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_missing_permission_is_reported(tmp_path: Path, clew: Callable[..., Any]) -> None:
    tmp_path.chmod(0o500)
    result = clew("demo", "--home", tmp_path)
    assert result.returncode == 1
    assert "Permission denied" in result.stderr


@pytest.mark.parametrize("command", ["serve", "up", "collect"])
def test_port_in_use_is_reported(command: str, demo_home: Path, clew: Callable[..., Any]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        result = clew(command, "--home", demo_home, "--port", str(port))
    assert result.returncode == 1
    assert result.stderr.startswith(f"clew: Port {port} on 127.0.0.1 is in use."), "output before the error"
    assert "--port" in result.stderr


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import marimo\n\napp = marimo.App()\n\nif __name__ == '__main__':\n    app.run()\n", "no cell"),
        ("print('just a script with no cell')\n", ""),
        (None, "No such file"),
    ],
    ids=["empty notebook", "script", "missing"],
)
def test_invalid_notebook_is_reported(
    source: str | None, message: str, tmp_path: Path, clew: Callable[..., Any]
) -> None:
    notebook = tmp_path / "notebook.py"
    if source is not None:
        notebook.write_text(source)
    result = clew("run", "--out", tmp_path / "streams", notebook)
    assert "Traceback" not in result.stderr
    assert (result.returncode == 0) == (message == "")
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("upstream", "daily_revenue.parquet.net_revenu"), "Did you mean net_revenue?"),
        (("upstream", "dayly_revenue.parquet.gross"), "Did you mean daily_revenue.parquet"),
        (("upstream", "gross"), "A column is written as DATASET.COLUMN"),
        (("show", "ffffffff"), "There is no notebook or session 'ffffffff'."),
        (("pipeline", "run", "--conf", "nonsense"), "Invalid --conf 'nonsense'."),
        (("pipeline", "compact", "--drop-older-than", "3 weeks"), "Invalid age '3 weeks'."),
        (("pipeline", "status", "--lake", "hdfs://host/lake"), "it is neither a folder nor a bucket"),
    ],
)
def test_unknown_name_is_reported(
    arguments: tuple[str, ...], message: str, demo_home: Path, clew: Callable[..., Any]
) -> None:
    result = clew(*arguments, "--home", demo_home)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == ""
