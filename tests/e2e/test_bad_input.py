"""What a person can get wrong: each time a sentence, an exit code, and nothing lost."""

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
FLAWED = [
    b'{"eventType": "START", "eventTi',
    json.dumps({"eventTime": "2026-01-01T10:00:00Z"}).encode(),
    json.dumps({**EVENT, "schemaURL": "https://openlineage.io/spec/9-0-0/OpenLineage.json"}).encode(),
    b"\xff\x00 no text at all",
]


def test_rejected_events_are_told_counted_and_kept(tmp_path: Path, clew: Callable[..., Any]) -> None:
    file = tmp_path / "events.ndjson"
    big = json.dumps(
        {**EVENT, "outputs": [{"namespace": "n", "name": "big", "facets": {"blob": {"text": "x" * 10_000_000}}}]}
    )
    file.write_bytes(b"\n".join([json.dumps(EVENT).encode(), *FLAWED, big.encode()]) + b"\n")
    home = tmp_path / "home"

    ended = clew("pipeline", "run", "--home", home, "--from", file)

    assert ended.returncode == 1
    assert "Ingested 2 events in " in ended.stderr
    assert "4 events rejected, stored in the table rejected_events:" in ended.stderr
    for reason in ("not_json", "no_identity", "unknown_schema", "not_utf8"):
        assert reason in ended.stderr
    assert "Traceback" not in ended.stderr
    lake = Lake(home / "lake")
    rejected, stored = lake.table("rejected_events"), lake.table("lineage_events")
    assert rejected is not None
    assert stored is not None
    assert sorted(rejected.to_pyarrow_table()["body"].to_pylist()) == sorted(FLAWED)
    assert sorted(map(len, stored.to_pyarrow_table()["event"].to_pylist())) == sorted(
        [len(json.dumps(EVENT)), len(big)]
    )


def test_a_lake_of_a_newer_version_is_left_alone(tmp_path: Path, clew: Callable[..., Any]) -> None:
    marker = tmp_path / "lake" / "manifest.json"
    marker.parent.mkdir()
    marker.write_text('{"format_version": 99, "written_by": "9.0.0"}')
    ended = clew("pipeline", "run", "--home", tmp_path)
    assert ended.returncode == 1
    assert "has format 99, written by clew 9.0.0" in ended.stderr
    assert "pip install -U clew" in ended.stderr
    assert sorted(path.name for path in marker.parent.iterdir() if not path.name.startswith(".")) == ["manifest.json"]


def test_no_java_is_said_before_anything_is_done(tmp_path: Path, clew: Callable[..., Any]) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "uname"):
        if path := shutil.which(name):
            (tools / name).symlink_to(path)
    ended = clew("pipeline", "run", "--home", tmp_path / "home", CLEW_JAVA="system", PATH=str(tools), JAVA_HOME="")
    assert ended.returncode == 1
    assert "No Java 17 or newer was found" in ended.stderr
    assert "pip install 'clew[java]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def _lose_table(home: Path) -> None:
    shutil.rmtree(home / "lake" / "run_facets")


def _lose_commits(home: Path) -> None:
    shutil.rmtree(home / "lake" / "lineage_events" / "_delta_log")


def _lose_file(home: Path) -> None:
    next((home / "lake" / "lineage_events").glob("*.parquet")).unlink()


def _lose_lake(home: Path) -> None:
    shutil.rmtree(home / "lake")


def _cut_log(home: Path) -> None:
    for segment in (home / "log").glob("*.ndjson"):
        os.truncate(segment, 10)


@pytest.mark.parametrize(
    ("damage", "sentence", "way_out"),
    [
        (_lose_table, "has no table run_facets", "which recreates them from the log"),
        (_lose_commits, "has no folder _delta_log", "Restore it from a backup"),
        (_lose_file, "lacks 1 of its", "Restore it from a backup"),
        (_lose_lake, "belongs to the lake", "--lake PATH"),
        (_cut_log, "that was already ingested", "Restore the log"),
    ],
)
def test_a_home_of_which_a_part_is_gone(
    damage: Callable[[Path], None],
    sentence: str,
    way_out: str,
    demo_home: Path,
    tmp_path: Path,
    clew: Callable[..., Any],
) -> None:
    home = tmp_path / "home"
    shutil.copytree(demo_home, home)
    damage(home)
    ended = clew("pipeline", "run", "--home", home)
    assert ended.returncode == 1
    assert sentence in ended.stderr
    assert way_out in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Ingesting events" not in ended.stderr


@pytest.mark.parametrize("command", [("pipeline", "status"), ("pipeline", "compact"), ("index", "rebuild")])
def test_half_a_lake_is_told_by_every_command(
    command: tuple[str, ...], demo_home: Path, tmp_path: Path, clew: Callable[..., Any]
) -> None:
    home = tmp_path / "home"
    shutil.copytree(demo_home, home)
    _lose_table(home)
    ended = clew(*command, "--home", home)
    assert ended.returncode == 1
    assert "has no table run_facets" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (home / "index.sqlite").exists()


@pytest.mark.parametrize("command", [("demo",), ("pipeline", "run")])
def test_a_home_that_cannot_be_written(command: tuple[str, ...], tmp_path: Path, clew: Callable[..., Any]) -> None:
    (tmp_path / "file").write_text("in the way")
    ended = clew(*command, "--home", tmp_path / "file" / "home")
    assert ended.returncode == 1
    assert "Cannot write to the data directory" in ended.stderr
    assert "--home DIR or CLEW_HOME" in ended.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_without_permission(tmp_path: Path, clew: Callable[..., Any]) -> None:
    tmp_path.chmod(0o500)
    ended = clew("demo", "--home", tmp_path)
    assert ended.returncode == 1
    assert "Permission denied" in ended.stderr


@pytest.mark.parametrize("command", ["serve", "up", "collect"])
def test_a_port_in_use(command: str, demo_home: Path, clew: Callable[..., Any]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = clew(command, "--home", demo_home, "--port", str(port))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"clew: Port {port} on 127.0.0.1 is in use."), "and nothing was begun before"
    assert "--port" in ended.stderr


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("import marimo\n\napp = marimo.App()\n\nif __name__ == '__main__':\n    app.run()\n", "no cell"),
        ("print('just a script with no cell')\n", ""),
        (None, "No such file"),
    ],
    ids=["empty notebook", "script", "missing"],
)
def test_a_notebook_that_cannot_be_run(
    source: str | None, sentence: str, tmp_path: Path, clew: Callable[..., Any]
) -> None:
    notebook = tmp_path / "notebook.py"
    if source is not None:
        notebook.write_text(source)
    ended = clew("run", "--out", tmp_path / "streams", notebook)
    assert "Traceback" not in ended.stderr
    assert (ended.returncode == 0) == (sentence == "")
    assert sentence in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("upstream", "daily_revenue.parquet.net_revenu"), "Did you mean net_revenue?"),
        (("upstream", "dayly_revenue.parquet.gross"), "Did you mean daily_revenue.parquet"),
        (("upstream", "gross"), "A column is written as DATASET.COLUMN"),
        (("show", "ffffffff"), "There is no notebook session 'ffffffff'."),
        (("pipeline", "run", "--conf", "nonsense"), "Invalid --conf 'nonsense'."),
        (("pipeline", "compact", "--drop-older-than", "3 weeks"), "Invalid age '3 weeks'."),
        (("pipeline", "status", "--lake", "gs://bucket/lake"), "it is neither a folder nor S3"),
    ],
)
def test_names_that_are_not_there(
    arguments: tuple[str, ...], sentence: str, demo_home: Path, clew: Callable[..., Any]
) -> None:
    ended = clew(*arguments, "--home", demo_home)
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert ended.stdout == ""
