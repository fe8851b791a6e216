"""kill -9 of driver, JVM and workers, at twenty points and in a backfill: what is recorded is what no kill changes."""

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
from tests.integration.pipeline.processes import workers
from tests.integration.pipeline.records import Record, append, event, record, run
from tests.support.paths import ROOT

from clew.data_dir import DataDir
from clew.errors import ClewError
from clew.lake.lake import Lake
from clew.pipeline.pipeline import open_pipeline
from clew.pipeline.reprocess import run_backfill

SEED = 7
EVENTS_PER_KILL = 12
# So that each start has two or three batches to take.
BYTES_PER_TRIGGER = 5_000
LARGE_TRIGGER = 1 << 24
LARGE_EVENTS = 6


@dataclass(frozen=True)
class Phase:
    """A part of the work, as it shows from outside: a new file begins it, and a kill comes within so many seconds."""

    name: str
    begins_with: str | None
    seconds: float


STARTING = Phase("while Spark starts", None, 4.0)
WRITING = Phase("while files are written", "dataset_facets/*.parquet", 0.2)
COMMITTING = Phase("between two tables", "dataset_facets/_delta_log/*.json", 0.03)
COMMITTED = Phase("while the index is written", "lineage_events/_delta_log/*.json", 0.04)
NEXT = Phase("after a batch", "lineage_events/_delta_log/*.json", 0.5)
DERIVING = Phase("while derived tables are written", "runs/*.parquet", 0.2)
DERIVED = Phase("between two derived tables", "runs/_delta_log/*.json", 0.03)
BACKFILLING = Phase("between two tables of a backfill", "dataset_facets/_delta_log/*.json", 0.03)
BACKFILLED = Phase("between two chunks of a backfill", "backfills/_delta_log/*.json", 0.3)
DRIVER_KILLS = (STARTING, WRITING, COMMITTING, COMMITTED, NEXT, DERIVING, DERIVED)
WORKER_KILLS = (
    *(WRITING, COMMITTING, WRITING, COMMITTED, WRITING, NEXT, WRITING),
    *(WRITING, COMMITTING, WRITING, COMMITTED, DERIVING, WRITING),
)


@pytest.fixture
def home(tmp_path: Path) -> DataDir:
    made = DataDir(tmp_path / "killed").create()
    Lake(made.lake).create_or_validate()
    return made


def test_there_are_twenty_kills() -> None:
    assert len(DRIVER_KILLS) + len(WORKER_KILLS) == 20


def test_kills_of_driver_and_all(home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    chance = Random(SEED)
    for number, phase in enumerate(DRIVER_KILLS):
        append_more(home, number)
        kill_driver(home, phase, chance)
    run(home, spark, BYTES_PER_TRIGGER)
    assert record(home) == undisturbed(home, tmp_path / "undisturbed", spark)


def test_kills_of_workers(home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    chance = Random(SEED)
    killed = 0
    for number, phase in enumerate(WORKER_KILLS):
        append_more(home, number)
        killed += kill_workers(home, phase, chance, spark)
    assert killed >= len(WORKER_KILLS)
    run(home, spark, BYTES_PER_TRIGGER)
    assert record(home) == undisturbed(home, tmp_path / "undisturbed", spark)


def test_kills_of_a_backfill(home: DataDir, spark: SparkSession, tmp_path: Path) -> None:
    append(home, *map(large_event, range(LARGE_EVENTS)))
    with open_pipeline(home, spark=spark) as pipeline:
        replace(pipeline, is_raw_only=True).ingest_available()
    chance = Random(SEED)
    command = ["-m", "clew", "pipeline", "backfill", "--chunk-mb", "1", "--home", str(home.root)]
    for phase in (BACKFILLING, BACKFILLED):
        kill_process(command, home, phase, chance)
    done = run_backfill(home, spark=spark)
    assert 0 < done.events < LARGE_EVENTS, "a chunk was done before, and one is left"
    assert record(home, "is_raw_only") == undisturbed(home, tmp_path / "undisturbed", spark, "is_raw_only")


def large_event(number: int) -> bytes:
    """Each is a chunk of a backfill."""
    return event(number, "x" * (1 << 20))


def append_more(home: DataDir, number: int) -> None:
    """Some new events, one that is none, and one that was there before."""
    first = number * EVENTS_PER_KILL
    append(home, *map(event, range(first, first + EVENTS_PER_KILL)), b"no event", event(0))


def undisturbed(home: DataDir, root: Path, spark: SparkSession, *but: str) -> Record:
    other = DataDir(root)
    shutil.copytree(home.log, other.log)
    run(other, spark, LARGE_TRIGGER)
    return record(other, *but)


def kill_driver(home: DataDir, phase: Phase, chance: Random) -> None:
    code = "from tests.integration.pipeline.records import DataDir, Path, run; "
    code += f"run(DataDir(Path({str(home.root)!r})), None, {BYTES_PER_TRIGGER})"
    kill_process(["-c", code], home, phase, chance)


def kill_process(arguments: list[str], home: DataDir, phase: Phase, chance: Random) -> None:
    """Start Python in a process group of its own, and kill driver, JVM and workers at once."""
    has_begun = beginning(home, phase)
    told = home.root / "driver.txt"
    with (
        told.open("wb") as output,
        subprocess.Popen([sys.executable, *arguments], cwd=ROOT, start_new_session=True, stderr=output) as process,
    ):
        try:
            await_moment(has_begun, phase, chance, lambda: process.poll() is None)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL, f"it ended before it was killed {phase.name}: {told.read_text()}"


def kill_workers(home: DataDir, phase: Phase, chance: Random, spark: SparkSession) -> int:
    """Run the pipeline here, and kill Spark's Python workers, and nothing else; gives how many."""
    has_begun = beginning(home, phase)
    is_over = threading.Event()
    killed = []

    def kill() -> None:
        await_moment(has_begun, phase, chance, lambda: not is_over.is_set())
        for worker in workers():
            os.kill(worker, signal.SIGKILL)
            killed.append(worker)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        run(home, spark, BYTES_PER_TRIGGER, is_derived=phase is DERIVING)
    except ClewError as fault:
        assert "it resumes where it stopped" in str(fault.hint)  # noqa: PT017  # a kill between jobs harms nothing
    finally:
        is_over.set()
        killer.join()
    return len(killed)


def beginning(home: DataDir, phase: Phase) -> Callable[[], bool]:
    """Whether a phase has begun since now."""
    if phase.begins_with is None:
        return lambda: True
    pattern = phase.begins_with
    before = set(home.lake_folder.glob(pattern))
    return lambda: not before.issuperset(home.lake_folder.glob(pattern))


def await_moment(has_begun: Callable[[], bool], phase: Phase, chance: Random, is_at_work: Callable[[], bool]) -> None:
    """Wait for a phase to begin, and then as long as chance has it."""
    while not has_begun() and is_at_work():
        time.sleep(0.001)
    after = chance.uniform(0, phase.seconds)
    time.sleep(after)
    sys.stdout.write(f"seed {SEED}: killed {phase.name}, {after * 1000:.0f} ms after it began\n")
