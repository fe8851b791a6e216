"""Lists of datasets, jobs and runs, last updated first, and the activity page."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from clew.index.browsing import PageQueries
from clew.query.model import State
from clew.query.moments import from_epoch_micros
from clew.query.views.model import EntityName, RunListItem, to_run_item, to_usages

_RUNS_PER_JOB = 12
_RECENT_RUNS = 8


class Counts(Struct, frozen=True):
    """Total counts."""

    datasets: int
    jobs: int
    runs: int
    sessions: int


class DatasetListItem(Struct, frozen=True, rename="camel"):
    """A dataset in a list."""

    dataset: EntityName
    at: datetime | None
    is_deleted: bool
    producers: tuple[EntityName, ...]


class JobListItem(Struct, frozen=True, rename="camel"):
    """A job in a list, with its latest runs, newest first."""

    job: EntityName
    kind: str | None
    at: datetime | None
    state: State | None
    runs: tuple[RunListItem, ...]
    run_total: int


class DatasetListView(Struct, frozen=True):
    """A page of datasets."""

    items: tuple[DatasetListItem, ...]
    total: int


class JobListView(Struct, frozen=True):
    """A page of jobs."""

    items: tuple[JobListItem, ...]
    total: int


class RunListView(Struct, frozen=True):
    """A page of runs."""

    items: tuple[RunListItem, ...]
    total: int


class Activity(Struct, frozen=True):
    """Recent activity: the home page when there is no notebook run."""

    counts: Counts
    runs: RunListView
    failed: RunListView
    datasets: DatasetListView


def build_activity(index: PageQueries) -> Activity:
    """Build the activity page."""
    return Activity(
        load_counts(index),
        list_runs(index, "", "", _RECENT_RUNS),
        list_runs(index, "", "FAILED", 4),
        list_datasets(index, "", 8),
    )


def load_counts(index: PageQueries) -> Counts:
    """Count datasets, jobs, runs and sessions as the lists do."""
    row = index.counts()
    return Counts(0, 0, 0, 0) if row is None else Counts(*row)


def list_datasets(index: PageQueries, text: str, limit: int) -> DatasetListView:
    """List the datasets with a text in their names."""
    rows, total = index.dataset_page(text, limit)
    items = []
    for row in rows:
        name = EntityName(row["namespace"], row["name"])
        producers = to_usages(index.jobs_using(name.key, "OUTPUT"), "job")
        items.append(
            DatasetListItem(
                name,
                from_epoch_micros(row["last_event_at"]),
                bool(row["is_deleted"]),
                tuple(usage.node for usage in producers[:3]),
            )
        )
    return DatasetListView(tuple(items), total)


def list_jobs(index: PageQueries, text: str, limit: int) -> JobListView:
    """List the jobs with a text in their names."""
    rows, total = index.job_page(text, limit)
    items = []
    for row in rows:
        name = EntityName(row["namespace"], row["name"])
        runs, run_total = index.runs_of(name.key, _RUNS_PER_JOB)
        latest = tuple(map(to_run_item, runs))
        state = latest[0].state if latest else None
        items.append(
            JobListItem(name, row["job_type"], from_epoch_micros(row["last_event_at"]), state, latest, run_total)
        )
    return JobListView(tuple(items), total)


def list_runs(index: PageQueries, text: str, state: str, limit: int) -> RunListView:
    """List the runs without a parent run."""
    rows, total = index.run_page(text, state, limit)
    return RunListView(tuple(map(to_run_item, rows)), total)
