"""Datasets, jobs and runs as lists: what was touched last, and how much there is in all."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.index.browsing import Browser
from clew.query.model import State
from clew.query.moments import moment
from clew.query.views.model import Name, RunLine, run_line, touches

_BARS = 12
_RECENT = 8


class Counts(Struct, frozen=True):
    """How much there is."""

    datasets: int
    jobs: int
    runs: int
    sessions: int


class DatasetLine(Struct, frozen=True, rename="camel"):
    """A dataset in a list."""

    dataset: Name
    at: datetime | None
    is_deleted: bool
    producers: tuple[Name, ...]


class JobLine(Struct, frozen=True, rename="camel"):
    """A job in a list, with its last runs, the newest first."""

    job: Name
    kind: str | None
    at: datetime | None
    state: State | None
    runs: tuple[RunLine, ...]
    run_total: int


class DatasetList(Struct, frozen=True):
    """Some of the datasets."""

    items: tuple[DatasetLine, ...]
    total: int


class JobList(Struct, frozen=True):
    """Some of the jobs."""

    items: tuple[JobLine, ...]
    total: int


class RunList(Struct, frozen=True):
    """Some of the runs."""

    items: tuple[RunLine, ...]
    total: int


class Activity(Struct, frozen=True):
    """What happened last, for whoever has no notebook to look at."""

    counts: Counts
    runs: RunList
    failed: RunList
    datasets: DatasetList


def activity(index: Browser) -> Activity:
    """The first screen without a notebook."""
    return Activity(
        counts(index), run_list(index, "", "", _RECENT), run_list(index, "", "FAILED", 4), dataset_list(index, "", 8)
    )


def counts(index: Browser) -> Counts:
    """How much there is, as the lists count it."""
    row = index.counts()
    return Counts(0, 0, 0, 0) if row is None else Counts(*row)


def dataset_list(index: Browser, text: str, limit: int) -> DatasetList:
    """Datasets whose name holds a text."""
    rows, total = index.dataset_page(text, limit)
    lines = []
    for row in rows:
        name = Name(row["namespace"], row["name"])
        producers = touches(index.jobs_touching(name.parts, "OUTPUT"), "job")
        lines.append(
            DatasetLine(
                name, moment(row["last_event_at"]), bool(row["is_deleted"]), tuple(one.node for one in producers[:3])
            )
        )
    return DatasetList(tuple(lines), total)


def job_list(index: Browser, text: str, limit: int) -> JobList:
    """Jobs whose name holds a text."""
    rows, total = index.job_page(text, limit)
    lines = []
    for row in rows:
        name = Name(row["namespace"], row["name"])
        runs, run_total = index.runs_of(name.parts, _BARS)
        last = tuple(map(run_line, runs))
        state = last[0].state if last else None
        lines.append(JobLine(name, row["job_type"], moment(row["last_event_at"]), state, last, run_total))
    return JobList(tuple(lines), total)


def run_list(index: Browser, text: str, state: str, limit: int) -> RunList:
    """Runs that are part of no other."""
    rows, total = index.run_page(text, state, limit)
    return RunList(tuple(map(run_line, rows)), total)
