"""Tests that a forgotten dataset, session or namespace is in no file, and that the rest is as it was."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import TableRows, append_events, make_event, read_tables, run_pipeline

from clew.cli.main import cli
from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.eventlog.writer import IncomingEvent, LogWriter
from clew.events.erasure import ErasureKind, ErasureTarget
from clew.events.streams import Stream
from clew.lake.lake import Lake
from clew.pipeline.forget import count_matches, forget, read_pending_target
from clew.pipeline.locks import LockedError, acquire_lock
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.reprocess import run_backfill
from clew.query.context import sidecar_path
from clew.query.service import LineageService

SECRET = "salaries-of-2026"
DATASET = ErasureTarget(ErasureKind.DATASET, names=(("hr", SECRET),))
NAMESPACE = ErasureTarget(ErasureKind.NAMESPACE, "hr-department")
SESSION = ErasureTarget(ErasureKind.SESSION, "5e551041")
TARGETS = [(DATASET, SECRET), (NAMESPACE, "hr-department"), (SESSION, "5e551041")]
BYTES_PER_TRIGGER = 1 << 20
KILL = """
import os, sys
from pathlib import Path
from clew.data_dir import DataDir
from clew.lake import compaction
from clew.pipeline import forget as module
from tests.integration.pipeline.test_forget import DATASET

commits = int(sys.argv[2])
replace_files, overwrite_lines = compaction.replace_files, module.overwrite_lines

def count(function):
    def call(*args, **options):
        global commits
        if commits == 0:
            os.kill(os.getpid(), 9)
        commits -= 1
        return function(*args, **options)
    return call

compaction.replace_files, module.overwrite_lines = count(replace_files), count(overwrite_lines)
module.forget(DataDir(Path(sys.argv[1])), DATASET)
"""


def secret_event(number: int) -> bytes:
    """Make an event of a run that reads the secret dataset, and writes what others read."""
    event = json.loads(make_event(number))
    lineage = event["outputs"][0]["facets"]["columnLineage"]["fields"]["c"]["inputFields"]
    event["inputs"].append({"namespace": "hr", "name": SECRET, "facets": {"schema": {"fields": [{"name": "pay"}]}}})
    lineage.append({"namespace": "hr", "name": SECRET, "field": "pay"})
    event["job"]["facets"] = {"sql": {"query": f"select * from {SECRET}"}}
    return json.dumps(event).encode()


def department_event(number: int) -> bytes:
    event = json.loads(make_event(number))
    event["run"]["runId"] = f"hr-run-{number}"
    event["job"]["namespace"] = "hr-department"
    return json.dumps(event).encode()


def session_events() -> list[IncomingEvent]:
    cell = {"session_id": "5e551041", "execution_id": "e1", "timestamp": "2026-01-01T10:00:00Z", "notebook": "nb.py"}
    run = {**json.loads(make_event(50)), "session_id": "5e551041", "execution_id": "e1"}
    bodies = {
        Stream.RUNTIME: {**cell, "event_type": "cell_execution_start", "cell_source": f"read('{SECRET}')"},
        Stream.DATAFRAME: {**cell, "event_type": "dataframe_lineage", "operation_code": "df.sum()"},
        Stream.OPENLINEAGE: run,
    }
    return [IncomingEvent(stream, "test", json.dumps(body).encode()) for stream, body in bodies.items()]


def write_log(home: DataDir) -> None:
    append_events(home, *map(make_event, range(12)))
    append_events(home, *map(secret_event, range(12, 20)), *map(department_event, range(20, 26)))
    append_events(home, b'{"eventTime": "never", "x": "%s"}' % SECRET.encode(), b"no event")
    subject = {"eventTime": "2026-01-01T10:00:00Z", "dataset": {"namespace": "hr", "name": SECRET, "facets": {"a": {}}}}
    append_events(home, json.dumps(subject).encode())
    with LogWriter(home.log) as log:
        log.append(session_events())


@pytest.fixture(scope="module")
def ingested(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataDir:
    """Create a data directory with a compacted, a small and a raw-only part."""
    home = DataDir(tmp_path_factory.mktemp("forget") / "home")
    write_log(home)
    run_pipeline(home, spark, 1 << 13)
    return home


@pytest.fixture
def home(ingested: DataDir, tmp_path: Path) -> DataDir:
    shutil.copytree(ingested.root, tmp_path / "home")
    return DataDir(tmp_path / "home")


def find_text(folder: Path, text: str) -> list[str]:
    """List the files that contain a text, also compressed."""
    found = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += repr(pq.ParquetFile(path).read().to_pylist()).encode()
        if text.encode() in content:
            found.append(str(path.relative_to(folder)))
    return found


def ingest_log(home: DataDir, root: Path, spark: SparkSession) -> TableRows:
    """Ingest the log of another data directory, and read the rows."""
    reference = DataDir(root)
    shutil.copytree(home.log, reference.log)
    run_pipeline(reference, spark, BYTES_PER_TRIGGER)
    return read_tables(reference, "event")


@pytest.mark.parametrize(("target", "text"), TARGETS, ids=["dataset", "namespace", "session"])
def test_no_file_has_the_name_and_the_rest_equals_a_new_run(
    target: ErasureTarget, text: str, home: DataDir, spark: SparkSession, tmp_path: Path
) -> None:
    assert find_text(home.root, text)
    sidecar_path(home.index, "search").write_text(text)
    expected = count_matches(home, target)
    receipt = forget(home, target, spark=spark)
    assert (receipt.log, receipt.lake) == (expected.log, expected.lake)
    assert not receipt.is_empty
    assert receipt.remaining_mentions == 0
    assert find_text(home.root, text) == []
    assert read_pending_target(home) is None
    remaining = read_tables(home, "event")
    assert remaining == ingest_log(home, tmp_path / "reference", spark)
    run_pipeline(home, spark, BYTES_PER_TRIGGER)
    assert read_tables(home, "event") == remaining, "nothing is ingested again"
    append_events(home, make_event(99))
    run_pipeline(home, spark, BYTES_PER_TRIGGER)
    assert len(read_tables(home)["lineage_events"]) == len(remaining["lineage_events"]) + 1
    assert forget(home, target, spark=spark).is_empty


def test_runs_and_other_datasets_remain(home: DataDir, spark: SparkSession) -> None:
    with LineageService.open(home.index) as service:
        runs = len(service.list_job_runs("recent", since=None, limit=500))
    forget(home, DATASET, spark=spark)
    with LineageService.open(home.index) as service:
        assert len(service.list_job_runs("recent", since=None, limit=500)) == runs
        assert service.search(SECRET, limit=5).total == 0
    edges = Lake(home.lake).require_table("column_edges").to_pyarrow_table().to_pylist()
    assert edges
    assert SECRET not in repr(edges)


@pytest.mark.parametrize("commits", [0, 1, 3, 5])
def test_completes_after_a_kill(commits: int, home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    process = subprocess.run([sys.executable, "-c", KILL, str(home.root), str(commits)], check=False)
    assert process.returncode == -9
    assert read_pending_target(home) == DATASET
    with pytest.raises(ClewError, match="was interrupted"):
        forget(home, NAMESPACE, spark=spark)
    # A pipeline may run in between.
    run_pipeline(home, spark, BYTES_PER_TRIGGER)
    forget(home, DATASET, spark=spark)
    assert find_text(home.root, SECRET) == []
    assert read_tables(home, "event") == ingest_log(home, tmp_path / "reference", spark)


def test_raw_events_stay_raw(spark: SparkSession, tmp_path: Path) -> None:
    home = DataDir(tmp_path / "home")
    write_log(home)
    with open_pipeline(home, spark=spark) as pipeline:
        replace(pipeline, is_raw_only=True).run()
    forget(home, DATASET, spark=spark)
    run_backfill(home, spark=spark)
    assert find_text(home.root / "lake", SECRET) == []
    expected = ingest_log(home, tmp_path / "reference", spark)
    excluded = {"is_raw_only", "event"}
    names = ["dataset_facets", "job_facets", "run_facets"]
    actual = read_tables(home, *excluded)
    assert {name: len(actual[name]) for name in names} == {name: len(expected[name]) for name in names}


def test_is_refused_while_a_pipeline_or_a_collector_runs(home: DataDir, spark: SparkSession) -> None:
    before = read_tables(home)
    with acquire_lock(home.lake / ".lock"), pytest.raises(LockedError, match="Another pipeline is running"):
        forget(home, DATASET, spark=spark)
    with LogWriter(home.log), pytest.raises(ClewError, match="Another process is writing to the log"):
        forget(home, DATASET, spark=spark)
    assert read_tables(home) == before
    assert read_pending_target(home) is None


def test_command_prints_a_receipt(home: DataDir, tmp_path: Path, spark: SparkSession) -> None:
    del spark
    receipt = tmp_path / "receipt.json"
    arguments = ["forget", SECRET, "--receipt", str(receipt), "--home", str(home.root)]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "Forgot the dataset hr:salaries-of-2026." in result.stdout
    assert "Backups" in result.stdout
    assert json.loads(receipt.read_text())["lake"] == {"deleted": 2, "changed": 9}
    unknown = CliRunner().invoke(cli, ["forget", SECRET, "--home", str(home.root)])
    assert isinstance(unknown.exception, ClewError)
