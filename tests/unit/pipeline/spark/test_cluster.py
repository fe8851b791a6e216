"""Tests of masters, and of the files that driver and executors must share."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from clew.errors import ClewError, UsageError
from clew.pipeline.spark import cluster
from clew.pipeline.spark.cluster import check_shared_files, is_local_master, validate_master


@pytest.mark.parametrize(
    ("master", "is_local"),
    [
        (None, True),
        ("local", True),
        ("local[*]", True),
        ("local[2, 3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
        ("k8s://https://host", False),
    ],
)
def test_local_masters(master: str | None, is_local: bool) -> None:
    assert is_local_master(master) is is_local


def test_rejects_spark_connect() -> None:
    with pytest.raises(UsageError, match="sc://host is a Spark Connect server, which clew does not support"):
        validate_master("sc://host")


@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("spark://127.0.0.1:1", "127.0.0.1:1: Connection refused"),
        ("spark://127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1: Connection refused, 127.0.0.1:2: Connection refused"),
        ("spark://host", "'host' is not HOST:PORT"),
        ("spark://", "'' is not HOST:PORT"),
    ],
)
def test_rejects_a_standalone_master_that_cannot_be_reached(master: str, reason: str) -> None:
    with pytest.raises(ClewError, match=f"The Spark master {master} cannot be reached: {reason}"):
        validate_master(master)


def test_accepts_a_standby_master() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        validate_master(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}")
    validate_master("yarn")
    validate_master("k8s://https://missing:443")


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Create a log and a lake with the markers of a driver."""
    log, reports = tmp_path / "log", tmp_path / "lake" / "_worker_reports"
    log.mkdir()
    reports.mkdir(parents=True)
    (log / ".check-token").write_text("token")
    (reports / "check-token").write_text("token")
    return log, reports


def test_executor_reads_and_writes_markers(folders: tuple[Path, Path]) -> None:
    log, reports = folders
    result = check_shared_files(str(reports), str(log / ".check-token"), "token")
    assert (reports / result["marker"]).read_text() == "token"
    assert set(check_shared_files(str(reports), None, "token")) == {"marker"}


def test_executor_reports_what_it_cannot_use(folders: tuple[Path, Path]) -> None:
    log, reports = folders
    missing = {"part": "log", "error": "No such file or directory"}
    assert check_shared_files(str(reports), str(log / ".missing"), "token") == missing
    (log / ".check-token").write_text("old")
    assert check_shared_files(str(reports), str(log / ".check-token"), "token")["error"] == "it is another folder"
    (reports / "check-token").unlink()
    result = check_shared_files(str(reports), None, "token")
    assert result == {"part": "lake", "error": "a file that the driver wrote does not exist there"}
    assert list(reports.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'java.io.IOException: Cannot run program "./env/bin/python": error=2',
            "cannot run the Python ./env/bin/python",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark",
            "The executors have Python 3.12, the driver has Python 3.11.",
        ),
        ("ModuleNotFoundError: No module named 'pyarrow'\n", "The Python of the executors has no module pyarrow."),
    ],
)
def test_explains_why_python_does_not_start_on_executors(text: str, message: str) -> None:
    assert message in str(cluster._translate_probe_error(RuntimeError(f"Job aborted:\n{text}\n\tat x.y")))


def test_other_errors_of_the_check_pass_unchanged() -> None:
    error = RuntimeError("out of memory")
    assert cluster._translate_probe_error(error) is error
