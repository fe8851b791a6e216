"""Tests of a standalone cluster whose workers share only one folder, or a bucket, with the driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.records import append_events, make_event, read_tables, run_pipeline
from tests.support.paths import ROOT
from tests.support.spark_cluster import SparkCluster, can_isolate_mounts, start_cluster

from clew import __version__
from clew.data_dir import BucketUrl, DataDir
from clew.lake.storage import open_storage

EVENT_COUNT = 200
NOTE_BYTES = 20_000
# Two tasks per batch, three batches.
BYTES_PER_TRIGGER = 3 << 19
TIMEOUT_SECONDS = 600
SHARE_HINT = "mounted at the same path on all machines"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with start_cluster(tmp_path_factory.mktemp("cluster") / "nodes") as running:
        yield running


@pytest.fixture(scope="module")
def source(cluster: SparkCluster) -> DataDir:
    """Create a data directory with a log that all workers see."""
    home = DataDir(cluster.shared / "source")
    append_events(home, *(make_event(number, "x" * NOTE_BYTES) for number in range(EVENT_COUNT)), b"no event")
    return home


def python_with_clew(folder: Path, version: str | None) -> Path:
    """Create a Python without clew, or with another version of it, that has the other packages of this one."""
    folder.mkdir()
    (folder / "site").mkdir()
    # A folder of a .pth file is added without its own .pth files, one of which has the path of clew.
    (folder / "site" / "packages.pth").write_text(sysconfig.get_paths()["purelib"])
    if version is not None:
        (folder / "clew").mkdir()
        (folder / "clew" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    script = folder / "python"
    path = f"{folder}:$PYTHONPATH:{sysconfig.get_paths()['purelib']}"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec {sys._base_executable} "$@"\n')  # type: ignore[attr-defined]
    script.chmod(0o755)
    return script


def copy_to_bucket(lake: Path, bucket: BucketUrl) -> None:
    """Copy a lake as docs/cluster.md describes it: without locks and worker reports."""
    for file in lake.rglob("*"):
        name = file.relative_to(lake)
        if file.is_file() and not file.name.endswith(".lock") and name.parts[0] != "_worker_reports":
            open_storage(bucket).add(str(name), file.read_bytes())


def test_spark_submit_continues_a_local_home_with_executors_without_clew(
    cluster: SparkCluster, bucket: BucketUrl, spark: SparkSession, tmp_path: Path
) -> None:
    home = DataDir(cluster.shared / "submitted", bucket)
    laptop = DataDir(home.root)
    append_events(laptop, *(make_event(number) for number in range(EVENT_COUNT)))
    run_pipeline(laptop, spark, 1 << 24)
    copy_to_bucket(laptop.lake_folder, bucket)
    shutil.rmtree(laptop.lake_folder)
    append_events(home, *(make_event(number, "x" * NOTE_BYTES) for number in range(EVENT_COUNT)), b"no event")
    archive = tmp_path / "clew.zip"
    package = ROOT / "src" / "clew"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in package.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts and "static" not in file.parts:
                packed.write(file, file.relative_to(package.parent))
    python = python_with_clew(cluster.shared / "plain", None)
    command = [
        f"{Path(pyspark.__file__).parent}/bin/spark-submit",
        *("--master", cluster.master, "--executor-memory", "600m", "--py-files", str(archive)),
        *("--conf", "spark.sql.shuffle.partitions=3", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        str(package / "pipeline" / "submit.py"),
        *("pipeline", "run", "--json", "--home", str(home.root), "--lake", str(bucket)),
    ]
    env = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable}
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, env=env, cwd=tmp_path, timeout=TIMEOUT_SECONDS
    )
    assert result.returncode == 1, result.stderr[-3000:]
    # spark-submit writes the progress messages to stdout, too.
    stats = json.loads(result.stdout[result.stdout.index("\n{") :])
    assert stats["events"] == EVENT_COUNT, result.stderr[-3000:]
    expected = DataDir(tmp_path / "local")
    shutil.copytree(home.log, expected.log)
    run_pipeline(expected, spark, 1 << 24)
    assert read_tables(home) == read_tables(expected)


@pytest.mark.skipif(not can_isolate_mounts(), reason="processes cannot have their own mount namespace here")
def test_a_pipeline_checks_what_is_shared_and_survives_a_killed_worker(
    cluster: SparkCluster, source: DataDir, spark: SparkSession, tmp_path: Path
) -> None:
    parameters = {
        "master": cluster.master,
        "private": str(cluster.private),
        "shared": str(cluster.shared),
        "other_python": str(python_with_clew(cluster.shared / "old", "0.0.9")),
        "worker": cluster.workers[0].pid,
        "bytes_per_trigger": BYTES_PER_TRIGGER,
    }
    results = run_driver(parameters)
    assert f"cannot read the event log {cluster.private}/home/log: No such file" in results["private home"]
    assert f"cannot use the lake {cluster.private}/lake: a file that the driver" in results["private lake"]
    assert SHARE_HINT in results["private home"]
    assert SHARE_HINT in results["private lake"]
    assert f"has clew 0.0.9, the driver has clew {__version__}." in results["other version"]
    assert "The executors cannot run the Python /missing/python3." in results["no Python"]
    assert "Another pipeline is running" in results["second writer"]
    assert results["application"].startswith(f"{cluster.master}, 2 executors: 127.0.0.1:")
    assert (results["executors"], results["status_after"]) == (2, "None")
    assert cluster.workers[0].poll() is not None, "the worker was killed"
    assert (results["events"], results["batches"]) == (EVENT_COUNT, 3)
    assert not list(cluster.shared.rglob("check-*")), "the markers were removed"
    expected = DataDir(tmp_path / "local")
    shutil.copytree(source.log, expected.log)
    run_pipeline(expected, spark, BYTES_PER_TRIGGER)
    assert read_tables(DataDir(cluster.shared / "home")) == read_tables(expected)


def run_driver(parameters: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.integration.pipeline.cluster_driver", json.dumps(parameters)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=TIMEOUT_SECONDS)
    assert result.returncode == 0, result.stderr[-3000:]
    results: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return results
