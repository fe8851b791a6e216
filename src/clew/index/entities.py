"""Queries for single runs, jobs and datasets, and for pages of them."""

from __future__ import annotations

from clew.index.notes import IS_ANNOTATIONS
from clew.index.reader import ALIASES_CTE, IndexReader, Row

# Start and end of a run, also if it has no START or terminal event.
_STARTED_AT = "coalesce(runs.started_at, runs.first_event_at)"
_ENDED_AT = "coalesce(runs.ended_at, runs.last_event_at)"


def find_run(index: IndexReader, run_uuid: str) -> Row | None:
    """Return a run, or its placeholder."""
    return index.query_one("select * from all_runs where run_uuid = ?", run_uuid)


def list_run_io(index: IndexReader, run_uuid: str) -> list[Row]:
    """Return the inputs and outputs of a run, inputs first."""
    return index.query(
        """select * from run_io where run_uuid = ?
        order by direction, dataset_namespace, dataset_name, dataset_version""",
        run_uuid,
    )


def list_child_runs(index: IndexReader, run_uuid: str, limit: int) -> list[Row]:
    """Return the child runs of a run. Scans all runs: avoid it where possible."""
    return index.query(
        "select * from runs where parent_run_uuid = ? order by started_at nulls first, run_uuid limit ?",
        run_uuid,
        limit,
    )


def find_job(index: IndexReader, namespace: str, name: str) -> Row | None:
    """Return a job, or its placeholder."""
    return index.query_one("select * from all_jobs where namespace = ? and name = ?", namespace, name)


def find_dataset(index: IndexReader, namespace: str, name: str) -> Row | None:
    """Return the dataset of this name, aliases not resolved, with `is_deleted`."""
    return index.query_one(
        """select dataset_states.*, to_namespace, to_name from dataset_states left join renames using (namespace, name)
        where namespace = ? and name = ?""",
        namespace,
        name,
    )


def find_canonical_name(index: IndexReader, namespace: str, name: str) -> Row | None:
    """Return the canonical name of an alias."""
    return index.query_one(
        "select canonical_namespace, canonical_name from dataset_aliases where namespace = ? and name = ?",
        namespace,
        name,
    )


def list_aliases(index: IndexReader, namespace: str, name: str) -> list[Row]:
    """Return all names of a dataset except this one."""
    return index.query(
        f"{ALIASES_CTE} select * from names where (namespace, name) != (?1, ?2) order by 1, 2",  # noqa: S608
        namespace,
        name,
    )


def datasets_after(index: IndexReader, namespace: str | None, after: tuple[str, str], limit: int) -> list[Row]:
    """Return a page of datasets, ordered by name, after the given one."""
    return index.query(
        f"""select * from dataset_states where (namespace, name) > (?1, ?2) and namespace = coalesce(?3, namespace)
        and not {IS_ANNOTATIONS} order by namespace, name limit ?4""",  # noqa: S608
        *after,
        namespace,
        limit,
    )


def jobs_after(index: IndexReader, namespace: str | None, after: tuple[str, str], limit: int) -> list[Row]:
    """Return a page of jobs, ordered by name, after the given one, without placeholders."""
    return index.query(
        """select * from jobs where (namespace, name) > (?1, ?2) and namespace = coalesce(?3, namespace)
        order by namespace, name limit ?4""",
        *after,
        namespace,
        limit,
    )


def runs_before(
    index: IndexReader, namespace: str, name: str, before: tuple[int | None, str] | None, limit: int
) -> list[Row]:
    """Return a page of a job's runs, newest first, after the given start and id; runs without a start come last."""
    values: tuple[object, ...] = ()
    if before is None:
        condition = ""
    elif before[0] is None:
        condition, values = "and started_at is null and run_uuid < ?", (before[1],)
    else:
        condition, values = "and ((started_at, run_uuid) < (?, ?) or started_at is null)", before
    query = f"""select * from runs where job_namespace = ? and job_name = ? {condition}
    order by started_at desc, run_uuid desc limit ?"""  # noqa: S608
    return index.query(query, namespace, name, *values, limit)


def list_jobs_using(index: IndexReader, namespace: str, name: str, direction: str, limit: int) -> list[Row]:
    """Return the jobs that read or write a dataset under any of its aliases."""
    return index.query(
        f"""{ALIASES_CTE} select distinct job_namespace, job_name from names
        join job_edges on dataset_namespace = names.namespace and dataset_name = names.name
        where direction = ?3 order by 1, 2 limit ?4""",  # noqa: S608
        namespace,
        name,
        direction,
        limit,
    )


def list_datasets_used_by(index: IndexReader, namespace: str, name: str, direction: str, limit: int) -> list[Row]:
    """Return the inputs or outputs of a job."""
    return index.query(
        """select dataset_namespace, dataset_name from job_edges
        where job_namespace = ? and job_name = ? and direction = ? order by 1, 2 limit ?""",
        namespace,
        name,
        direction,
        limit,
    )


def find_schema_fields(index: IndexReader, schema_id: str | None) -> str | None:
    """Return the fields of a schema as JSON."""
    row = None if schema_id is None else index.query_one("select fields from schemas where schema_id = ?", schema_id)
    return None if row is None else row["fields"]


def list_dataset_versions(index: IndexReader, namespace: str, name: str, limit: int) -> list[Row]:
    """Return the versions of a dataset, one per completed write or declared state, newest first."""
    return index.query(
        f"""{ALIASES_CTE} select versions.* from names
        join dataset_versions versions on dataset_namespace = names.namespace and dataset_name = names.name
        order by created_at desc, last_seq desc limit ?3""",  # noqa: S608
        namespace,
        name,
        limit,
    )


def list_run_edges(index: IndexReader, run_uuid: str, limit: int) -> list[Row]:
    """Return the column edges of a run."""
    return index.query(
        """select * from column_edges where asserted_by = ?
        order by dataset_namespace, dataset_name, "column" nulls first, source_namespace, source_name,
        source_column nulls first limit ?""",
        run_uuid,
        limit,
    )


def producer_before(index: IndexReader, input_row: Row, consumer: Row) -> Row | None:
    """Return the run that wrote an input: the same version, or else the last write before the consumer started."""
    return index.query_one(
        f"""{ALIASES_CTE} select runs.* from names
        join run_io on dataset_namespace = names.namespace and dataset_name = names.name and direction = 'OUTPUT'
        join runs using (run_uuid)
        where run_uuid != ?3 and (?4 = '' or dataset_version in (?4, '')) and state not in ('FAILED', 'ABORTED')
        and {_ENDED_AT} <= ?5 order by dataset_version = ?4 desc, {_ENDED_AT} desc, state_seq desc limit 1""",  # noqa: S608
        input_row["dataset_namespace"],
        input_row["dataset_name"],
        consumer["run_uuid"],
        input_row["dataset_version"],
        _started_at(consumer),
    )


def consumers_after(index: IndexReader, output_row: Row, producer: Row, limit: int) -> list[Row]:
    """Return the runs that read an output before another run overwrote it."""
    namespace, name = output_row["dataset_namespace"], output_row["dataset_name"]
    next_write = index.query_one(
        f"""{ALIASES_CTE} select min({_ENDED_AT}) as ended_at from names
        join run_io on dataset_namespace = names.namespace and dataset_name = names.name and direction = 'OUTPUT'
        join runs using (run_uuid) where run_uuid != ?3 and state not in ('FAILED', 'ABORTED')
        and ({_ENDED_AT}, state_seq) > (?4, ?5)""",  # noqa: S608
        namespace,
        name,
        producer["run_uuid"],
        _ended_at(producer),
        producer["state_seq"],
    )
    return index.query(
        f"""{ALIASES_CTE} select * from (
            select distinct runs.* from names
            join run_io on dataset_namespace = names.namespace and dataset_name = names.name and direction = 'INPUT'
            join runs using (run_uuid)
            where run_uuid != ?3 and {_STARTED_AT} >= ?4 and ({_STARTED_AT} < ?5 or ?5 is null)
            and (?6 = '' or dataset_version in (?6, ''))
        ) runs order by {_STARTED_AT}, run_uuid limit ?7""",  # noqa: S608
        namespace,
        name,
        producer["run_uuid"],
        _ended_at(producer),
        None if next_write is None else next_write["ended_at"],
        output_row["dataset_version"],
        limit,
    )


def _started_at(run: Row) -> object:
    return run["first_event_at"] if run["started_at"] is None else run["started_at"]


def _ended_at(run: Row) -> object:
    return run["last_event_at"] if run["ended_at"] is None else run["ended_at"]
