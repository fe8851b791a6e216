"""Lists of runs: by time, by duration and by dataset."""

from __future__ import annotations

from clew.index.reader import ALIASES_CTE, IndexReader, Row

# Runs of notebook cells and operations are left out.
_TOP_LEVEL_RUNS = """select * from runs where (session_id is null or exists (
    select 1 from jobs where namespace = job_namespace and name = job_name and job_type = 'NOTEBOOK'))"""
_FAILED = "state in ('FAILED', 'ABORTED')"


def list_top_level_runs(index: IndexReader, since: int, limit: int, *, is_failed: bool = False) -> list[Row]:
    """Return runs that started at `since` or later, newest first, without those of notebook cells and operations."""
    query = f"{_TOP_LEVEL_RUNS} and {_FAILED}" if is_failed else _TOP_LEVEL_RUNS
    return index.query(f"{query} and first_event_at >= ? order by first_event_at desc limit ?", since, limit)


def list_slow_runs(index: IndexReader, since: int, sample_size: int, limit: int) -> list[Row]:
    """Return the slowest of the `sample_size` newest runs that started at `since` or later."""
    return index.query(
        f"""select * from ({_TOP_LEVEL_RUNS} and first_event_at >= ? order by first_event_at desc limit ?) newest
        where ended_at is not null and started_at is not null order by ended_at - started_at desc limit ?""",  # noqa: S608
        since,
        sample_size,
        limit,
    )


def list_dataset_io(index: IndexReader, namespace: str, name: str, limit: int) -> list[Row]:
    """Return the last reads and writes of a dataset under all its aliases, newest first."""
    return index.query(
        f"""{ALIASES_CTE} select run_io.*, runs.first_event_at, runs.state, fields from names
        join run_io on dataset_namespace = names.namespace and dataset_name = names.name
        join runs using (run_uuid) left join schemas using (schema_id)
        order by first_event_at desc, run_io.last_seq desc limit ?3""",  # noqa: S608
        namespace,
        name,
        limit,
    )
