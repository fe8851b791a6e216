"""Whenever the pipeline dies, it goes on where it stopped: nothing is lost, nothing stands there twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from clew.collector.log import LogWriter, Received
from clew.errors import ClewError
from clew.events.stream import Stream
from clew.home import Home
from clew.index.bodies import DELETED, Unpacker
from clew.index.sink import IndexSink
from clew.index.store import connect_reader
from clew.lake.delta import Lake
from clew.pipeline.work import open_pipeline

EVENTS = 60
BATCHES = 3


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    home = filled(tmp_path_factory.mktemp("undisturbed"))
    run(home, spark)
    return record(home)


@pytest.mark.parametrize("call", range(1, 10))
def test_an_interruption_between_commits(
    call: int, spark: SparkSession, tmp_path: Path, undisturbed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = filled(tmp_path)
    with failing_at(call, monkeypatch), pytest.raises(ClewError, match="it goes on where it stopped"):
        run(home, spark)
    run(home, spark)
    assert record(home) == undisturbed


def test_kill_9_at_any_moment(tmp_path: Path, undisturbed: dict[str, list[str]]) -> None:
    home = filled(tmp_path)
    chance = Random(7)
    for _ in range(3):
        with started(home) as process:
            while not list(home.lake.glob("dataset_facets/*.parquet")) and process.poll() is None:
                time.sleep(0.05)
            time.sleep(chance.uniform(0, 3))
            os.killpg(process.pid, signal.SIGKILL)
    with started(home) as process:
        assert process.wait(timeout=180) == 0
    assert record(home) == undisturbed


@contextmanager
def started(home: Home) -> Iterator[subprocess.Popen[bytes]]:
    """The pipeline in a process group of its own: driver, JVM and workers."""
    here = Path(__file__)
    code = f"import sys; sys.path.insert(0, {str(here.parent)!r}); from {here.stem} import Home, Path, run; "
    command = [sys.executable, "-c", f"{code} run(Home(Path({str(home.root)!r})), None)"]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    yield process
    process.wait()


@contextmanager
def failing_at(call: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Die before the n-th write to a table or to the index."""
    left = [call]

    def failing(write: object) -> object:
        def wrapped(*arguments: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise OSError("the machine went down")
            return write(*arguments)  # type: ignore[operator]

        return wrapped

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "append", failing(Lake.append))
        patch.setattr(IndexSink, "apply", failing(IndexSink.apply))
        yield


def filled(root: Path) -> Home:
    home = Home(root)
    with LogWriter(home.log) as log:
        log.append(Received(Stream.OPENLINEAGE, "test", event(number)) for number in range(EVENTS))
        log.append(Received(Stream.OPENLINEAGE, "test", event(number, "again")) for number in range(0, EVENTS, 7))
        log.append([Received(Stream.OPENLINEAGE, "test", b"no event")])
    return home


def event(number: int, note: str = "") -> bytes:
    dataset = {"namespace": "n", "name": f"d{number % 5}", "facets": {"schema": {"fields": [{"name": f"c{number}"}]}}}
    lineage = {"fields": {"c": {"inputFields": [{"namespace": "n", "name": f"d{number % 5 - 1}", "field": "c"}]}}}
    written = {**dataset, "name": f"d{number % 5 + 1}", "facets": {"columnLineage": lineage}}
    return json.dumps(
        {
            "eventType": ("START", "RUNNING", "COMPLETE")[number % 3],
            "eventTime": f"2026-01-01T10:{number % 60:02}:00Z",
            "run": {"runId": f"run-{number // 3}", "facets": {"note": {"text": note}}},
            "job": {"namespace": "n", "name": f"j{number % 7}"},
            "inputs": [dataset],
            "outputs": [written],
        }
    ).encode()


def run(home: Home, spark: SparkSession | None) -> None:
    with open_pipeline(home, spark=spark) as pipeline:
        size = sum(path.stat().st_size for path in home.log.glob("*.ndjson"))
        replace(pipeline, bytes_per_trigger=size // BATCHES + 1).take_new()


def record(home: Home) -> dict[str, list[str]]:
    """All rows of the lake and of the index, but for when they were received or written."""
    lake = Lake(home.lake)
    rows = {name: table.to_pyarrow_table().to_pylist() for name in lake.row_counts() if (table := lake.table(name))}
    index = connect_reader(home.index)
    names = [row["name"] for row in index.execute("select name from sqlite_master where type = 'table'")]
    for name in set(names) - {"meta"}:
        rows[f"index.{name}"] = [dict(row) for row in index.execute(f"select * from {name}")]
    return {name: sorted(map(comparable, table)) for name, table in rows.items()}


def comparable(row: dict[str, object]) -> str:
    row = {name: value for name, value in row.items() if name not in {"received_at", "created_at", "batch"}}
    if isinstance(body := row.get("body"), bytes):
        row["body"] = Unpacker().unpack(body) if body != DELETED and "entity" in row else body
    return json.dumps(row, default=str, sort_keys=True)
