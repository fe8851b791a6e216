"""Tests of the benchmarks' shared log, and of ingesting it without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import generate, logs
from bench.measure_commits import open_committer

from clew.lake.lake import Lake
from clew.pipeline.maintenance import MaintenanceStats


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> logs.Log:
    monkeypatch.setattr(logs, "BUILD", tmp_path / "build")
    return logs.open_log(45)


def test_log_has_the_generated_events(log: logs.Log) -> None:
    assert list(log.bodies()) == list(dict.fromkeys(generate.generate_events(45, logs.SEED)))
    assert log.events == len(list(log.bodies()))


def test_writes_a_log_once(log: logs.Log) -> None:
    modified_at = (log.folder / "count").stat().st_mtime_ns
    assert logs.open_log(45) == log
    assert (log.folder / "count").stat().st_mtime_ns == modified_at


def test_small_batches_ingest_every_event(log: logs.Log, tmp_path: Path) -> None:
    home = log.create_home(tmp_path / "home")
    with open_committer(log, home, MaintenanceStats()) as (commit, count):
        commits = [commit() for _ in range(count)]
    assert len(commits) == 3
    assert all(seconds.lake > 0 and seconds.index > 0 for seconds in commits)
    assert Lake(home.lake).row_counts()["lineage_events"] == log.events
