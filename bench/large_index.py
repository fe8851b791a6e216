"""An index of many runs and edges, written from rows, for query benchmarks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from uuid import UUID

from clew.index.changes import AssertionRow, ChangeSet, DatasetRow, EdgeRow, JobEdgeRow, JobRow, RunIoRow, RunRow
from clew.index.writer import build_and_swap

SCHEDULER, STORE = "scheduler", "postgres://warehouse:5432"
JOBS_PER_AREA = 200
INPUTS = 3
RUNS_PER_JOB = 4
COLUMNS = 4
_SOURCES = 5_000
_JOBS_PER_BATCH = 5_000
_DAY = 86_400_000_000


def job_name(number: int) -> str:
    """Name of a job; jobs of an area read each other's outputs."""
    return f"area_{number // JOBS_PER_AREA:05}.job_{number % JOBS_PER_AREA:03}"


def table_name(number: int) -> str:
    """Name of the table that the job writes."""
    return f"area_{number // JOBS_PER_AREA:05}.table_{number % JOBS_PER_AREA:03}"


def source_name(number: int) -> str:
    """Name of a table that no job writes; the first ones have thousands of readers."""
    return f"raw.source_{number:05}"


def write_index(path: Path, jobs: int) -> None:
    """Write an index of jobs with four edges, four runs and four column edges each."""
    random = Random(7)
    with build_and_swap(path) as writer:
        sources = [DatasetRow(STORE, source_name(number), 0, 0, 0, 0) for number in range(_SOURCES)]
        writer.apply("sources", ChangeSet(datasets=sources))
        for first in range(0, jobs, _JOBS_PER_BATCH):
            changes = ChangeSet()
            for number in range(first, min(first + _JOBS_PER_BATCH, jobs)):
                _add_job(changes, number, list(_inputs(random, number)), random)
            writer.apply(f"jobs/{first}", changes)


def _inputs(random: Random, number: int) -> Iterator[str]:
    position = number % JOBS_PER_AREA
    for _ in range(INPUTS):
        if position < 20 or random.random() < 0.1:
            # A few sources are read by a large part of all jobs.
            yield source_name(int(_SOURCES * random.random() ** 3))
        else:
            yield table_name(number - random.randint(1, min(position, 40)))


def _add_job(changes: ChangeSet, number: int, inputs: list[str], random: Random) -> None:
    job, output, seq = (SCHEDULER, job_name(number)), table_name(number), number + 1
    for name in dict.fromkeys(inputs):
        changes.reported_job_edges.append(JobEdgeRow(*job, "INPUT", STORE, name, None, seq, seq, seq, seq))
    changes.reported_job_edges.append(JobEdgeRow(*job, "OUTPUT", STORE, output, None, seq, seq, seq, seq))
    changes.datasets.append(DatasetRow(STORE, output, seq, seq, seq, seq, seq, seq))
    runs = [_add_run(changes, job, output, inputs, seq, day, random) for day in range(RUNS_PER_JOB)]
    changes.jobs.append(JobRow(*job, seq, seq, seq, seq, runs[-1], RUNS_PER_JOB * _DAY, seq))
    edge_set = f"set {number}"
    for position in range(COLUMNS):
        source = inputs[position % len(inputs)]
        column = f"column_{position}"
        edge = EdgeRow(edge_set, position, column, STORE, source, column, "DIRECT", "IDENTITY", None, None)
        changes.edge_sets.append(edge)
    assertion = AssertionRow(runs[-1], STORE, output, "", "columnLineage", seq, seq, runs[-1], *job, None, edge_set)
    changes.lineage_assertions.append(assertion)


def _add_run(
    changes: ChangeSet, job: tuple[str, str], output: str, inputs: list[str], seq: int, day: int, random: Random
) -> str:
    start = day * _DAY + seq
    # UUID of version 7, which begins with the time.
    run = str(UUID(int=(start // 1000) << 80 | 7 << 76 | random.getrandbits(76)))
    changes.runs.append(
        RunRow(run, *job, seq, "COMPLETED", 3, start + 10, seq, start, start + 10, start, start + 10, None, None, seq)
    )
    for direction, names in (("INPUT", dict.fromkeys(inputs)), ("OUTPUT", [output])):
        changes.run_io += [RunIoRow(run, direction, STORE, name, "", *job, None, seq, seq, start) for name in names]
    return run
