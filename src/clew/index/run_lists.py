"""Runs, many at once: of all jobs by their time, and of a dataset as they read and wrote it."""

from __future__ import annotations

from clew.index.reader import NAMES, IndexReader, Row

# A notebook's cells and operations are runs, too, but not what a person calls so.
_WHOLE_RUNS = """select * from runs where (session_id is null or exists (
    select 1 from jobs where namespace = job_namespace and name = job_name and job_type = 'NOTEBOOK'))"""
_FAILED = "state in ('FAILED', 'ABORTED')"


def whole_runs(index: IndexReader, since: int, limit: int, *, is_failed: bool = False) -> list[Row]:
    """Runs that began at `since` or later, the newest first; not those of a notebook's cells and operations."""
    which = f"{_WHOLE_RUNS} and {_FAILED}" if is_failed else _WHOLE_RUNS
    return index.ask(f"{which} and first_event_at >= ? order by first_event_at desc limit ?", since, limit)


def slow_runs(index: IndexReader, since: int, among: int, limit: int) -> list[Row]:
    """Of the newest `among` runs that began at `since` or later, those that took longest."""
    return index.ask(
        f"""select * from ({_WHOLE_RUNS} and first_event_at >= ? order by first_event_at desc limit ?) newest
        where ended_at is not null and started_at is not null order by ended_at - started_at desc limit ?""",  # noqa: S608
        since,
        among,
        limit,
    )


def dataset_io(index: IndexReader, namespace: str, name: str, limit: int) -> list[Row]:
    """The last reads and writes of a dataset, under whichever of its names, the newest first."""
    return index.ask(
        f"""{NAMES} select run_io.*, runs.first_event_at, runs.state, fields from names
        join run_io on dataset_namespace = names.namespace and dataset_name = names.name
        join runs using (run_uuid) left join schemas using (schema_id)
        order by first_event_at desc, run_io.last_seq desc limit ?3""",  # noqa: S608
        namespace,
        name,
        limit,
    )
