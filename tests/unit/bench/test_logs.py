"""The log that measures share, and its way into tables without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import generate, logs
from bench.measure_commits import committing

from clew.lake.lake import Lake
from clew.pipeline.maintenance import MaintenanceStats


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> logs.Log:
    monkeypatch.setattr(logs, "BUILD", tmp_path / "build")
    return logs.log_of(45)


def test_a_log_holds_the_generated_events(log: logs.Log) -> None:
    assert list(log.bodies()) == list(dict.fromkeys(generate.events(45, logs.SEED)))
    assert log.events == len(list(log.bodies()))


def test_a_log_is_made_once(log: logs.Log) -> None:
    made = (log.folder / "count").stat().st_mtime_ns
    assert logs.log_of(45) == log
    assert (log.folder / "count").stat().st_mtime_ns == made


def test_small_batches_take_in_every_event(log: logs.Log, tmp_path: Path) -> None:
    home = log.home(tmp_path / "home")
    with committing(log, home, MaintenanceStats()) as (commit, count):
        took = [commit() for _ in range(count)]
    assert len(took) == 3
    assert all(one.lake > 0 and one.index > 0 for one in took)
    assert Lake(home.lake).row_counts()["lineage_events"] == log.events
