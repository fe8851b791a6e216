"""Tests of kill -9 of driver, JVM and workers at 20 points and during a backfill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.integration.pipeline.processes import list_worker_pids
from tests.integration.pipeline.records import TableRows, append_events, make_event, read_tables, run_pipeline
from tests.support.paths import ROOT

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.lake.lake import Lake
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.reprocess import run_backfill

SEED = 7
EVENTS_PER_KILL = 12
# Two or three batches per start.
BYTES_PER_TRIGGER = 5_000
LARGE_TRIGGER = 1 << 24
LARGE_EVENTS = 6


@dataclass(frozen=True)
class Phase:
    """Phase of the pipeline: starts with a new file that matches a pattern; the kill comes within `seconds`."""

    name: str
    start_pattern: str | None
    seconds: float


STARTING = Phase("while Spark starts", None, 4.0)
WRITING = Phase("while files are written", "dataset_facets/*.parquet", 0.2)
COMMITTING = Phase("between two tables", "dataset_facets/_delta_log/*.json", 0.03)
COMMITTED = Phase("while the index is written", "lineage_events/_delta_log/*.json", 0.04)
AFTER_BATCH = Phase("after a batch", "lineage_events/_delta_log/*.json", 0.5)
DERIVING = Phase("while derived tables are written", "runs/*.parquet", 0.2)
DERIVED = Phase("between two derived tables", "runs/_delta_log/*.json", 0.03)
BACKFILLING = Phase("between two tables of a backfill", "dataset_facets/_delta_log/*.json", 0.03)
BACKFILLED = Phase("between two chunks of a backfill", "backfills/_delta_log/*.json", 0.3)
DRIVER_KILLS = (STARTING, WRITING, COMMITTING, COMMITTED, AFTER_BATCH, DERIVING, DERIVED)
WORKER_KILLS = (
    *(WRITING, COMMITTING, WRITING, COMMITTED, WRITING, AFTER_BATCH, WRITING),
    *(WRITING, COMMITTING, WRITING, COMMITTED, DERIVING, WRITING),
)


@pytest.fixture
def home(tmp_path: Path) -> DataDir:
    data_dir = DataDir(tmp_path / "killed").create()
    Lake(data_dir.lake).create_or_validate()
    return data_dir


def test_number_of_kills() -> None:
    assert len(DRIVER_KILLS) + len(WORKER_KILLS) == 20


def test_kills_of_the_driver(home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    random = Random(SEED)
    for number, phase in enumerate(DRIVER_KILLS):
        append_batch(home, number)
        kill_driver(home, phase, random)
    run_pipeline(home, spark, BYTES_PER_TRIGGER)
    assert read_tables(home) == ingest_uninterrupted(home, tmp_path / "uninterrupted", spark)


def test_kills_of_workers(home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    random = Random(SEED)
    kill_count = 0
    for number, phase in enumerate(WORKER_KILLS):
        append_batch(home, number)
        kill_count += kill_workers(home, phase, random, spark)
    assert kill_count >= len(WORKER_KILLS)
    run_pipeline(home, spark, BYTES_PER_TRIGGER)
    assert read_tables(home) == ingest_uninterrupted(home, tmp_path / "uninterrupted", spark)


def test_kills_of_a_backfill(home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    append_events(home, *map(large_event, range(LARGE_EVENTS)))
    with open_pipeline(home, spark=spark) as pipeline:
        replace(pipeline, is_raw_only=True).ingest_available()
    random = Random(SEED)
    command = ["-m", "clew", "pipeline", "backfill", "--chunk-mb", "1", "--home", str(home.root)]
    for phase in (BACKFILLING, BACKFILLED):
        kill_process(command, home, phase, random)
    progress = run_backfill(home, spark=spark)
    assert 0 < progress.events < LARGE_EVENTS, "one chunk was complete, and one is left"
    assert read_tables(home, "is_raw_only") == ingest_uninterrupted(
        home, tmp_path / "uninterrupted", spark, "is_raw_only"
    )


def test_kill_of_a_backfill_while_it_derives(home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    append_events(home, *map(make_event, range(EVENTS_PER_KILL)))
    with open_pipeline(home, spark=spark) as pipeline:
        replace(pipeline, is_raw_only=True).ingest_available()
    command = ["-m", "clew", "pipeline", "backfill", "--home", str(home.root)]
    kill_process(command, home, DERIVING, Random(SEED))
    assert "current_run_facets" not in read_tables(home) or not read_tables(home)["current_run_facets"]
    progress = run_backfill(home, spark=spark)
    assert (progress.events, progress.is_derived_refreshed) == (0, True)
    assert read_tables(home, "is_raw_only") == ingest_uninterrupted(
        home, tmp_path / "uninterrupted", spark, "is_raw_only"
    )


def large_event(number: int) -> bytes:
    """Make an event as large as a chunk of a backfill."""
    return make_event(number, "x" * (1 << 20))


def append_batch(home: DataDir, number: int) -> None:
    """Append new events, an invalid one and a duplicate."""
    first = number * EVENTS_PER_KILL
    append_events(home, *map(make_event, range(first, first + EVENTS_PER_KILL)), b"no event", make_event(0))


def ingest_uninterrupted(home: DataDir, root: Path, spark: SparkSession, *excluded: str) -> TableRows:
    reference = DataDir(root)
    shutil.copytree(home.log, reference.log)
    run_pipeline(reference, spark, LARGE_TRIGGER)
    return read_tables(reference, *excluded)


def kill_driver(home: DataDir, phase: Phase, random: Random) -> None:
    code = "from tests.integration.pipeline.records import DataDir, Path, run_pipeline; "
    code += f"run_pipeline(DataDir(Path({str(home.root)!r})), None, {BYTES_PER_TRIGGER})"
    kill_process(["-c", code], home, phase, random)


def kill_process(arguments: list[str], home: DataDir, phase: Phase, random: Random) -> None:
    """Start Python in a new process group, and kill driver, JVM and workers together."""
    has_started = watch_start(home, phase)
    output_path = home.root / "driver.txt"
    with (
        output_path.open("wb") as output,
        subprocess.Popen([sys.executable, *arguments], cwd=ROOT, start_new_session=True, stderr=output) as process,
    ):
        try:
            wait_for_phase(has_started, phase, random, lambda: process.poll() is None)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, f"it ended before the kill {phase.name}: {output_path.read_text()}"


def kill_workers(home: DataDir, phase: Phase, random: Random, spark: SparkSession) -> int:
    """Run the pipeline in this process, kill only Spark's Python workers, and return their number."""
    has_started = watch_start(home, phase)
    is_finished = threading.Event()
    killed_pids = []

    def kill() -> None:
        wait_for_phase(has_started, phase, random, lambda: not is_finished.is_set())
        for worker in list_worker_pids():
            os.kill(worker, signal.SIGKILL)
            killed_pids.append(worker)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        run_pipeline(home, spark, BYTES_PER_TRIGGER, is_derived=phase is DERIVING)
    except ClewError as error:
        assert "it resumes where it stopped" in str(error.hint)  # noqa: PT017  # no error if no job was running
    finally:
        is_finished.set()
        killer.join()
    return len(killed_pids)


def watch_start(home: DataDir, phase: Phase) -> Callable[[], bool]:
    """Return a function that checks whether a phase has started since this call."""
    if phase.start_pattern is None:
        return lambda: True
    pattern = phase.start_pattern
    before = set(home.lake_folder.glob(pattern))
    return lambda: not before.issuperset(home.lake_folder.glob(pattern))


def wait_for_phase(
    has_started: Callable[[], bool], phase: Phase, random: Random, is_running: Callable[[], bool]
) -> None:
    """Wait for the start of a phase, and then for a random time."""
    while not has_started() and is_running():
        time.sleep(0.001)
    delay = random.uniform(0, phase.seconds)
    time.sleep(delay)
    sys.stdout.write(f"seed {SEED}: killed {phase.name}, {delay * 1000:.0f} ms after its start\n")
