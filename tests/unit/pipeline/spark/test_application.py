"""Tests of the stored Spark application of a pipeline."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from clew.data_dir import DataDir
from clew.pipeline.spark.application import SparkApplication, read_application, remove_application, write_application

MASTER = "spark://host:7077"


@pytest.mark.parametrize(
    ("executors", "text"),
    [
        ((), MASTER),
        (("a:1",), f"{MASTER}, 1 executor: a:1 (app-1)"),
        (("a:1", "b:2"), f"{MASTER}, 2 executors: a:1, b:2 (app-1)"),
    ],
)
def test_text(executors: tuple[str, ...], text: str) -> None:
    assert str(SparkApplication(MASTER, "app-1", executors)) == text


def test_is_stored_while_the_pipeline_runs(tmp_path: Path) -> None:
    home, application = DataDir(tmp_path), SparkApplication(MASTER, "app-1", ("a:1",))
    assert read_application(home) is None
    write_application(home, application)
    assert read_application(home) == application
    remove_application(home)
    remove_application(home)
    assert read_application(home) is None


def test_a_killed_driver_of_this_machine_is_not_shown(tmp_path: Path) -> None:
    home, application = DataDir(tmp_path), SparkApplication(MASTER, "app-1", (), driver_pid=2**22 + 1)
    write_application(home, application)
    assert read_application(home) is None
    elsewhere = msgspec.structs.replace(application, driver_host="elsewhere")
    write_application(home, elsewhere)
    assert read_application(home) == elsewhere
    (tmp_path / "spark.json").write_text("{")
    assert read_application(home) is None
