"""Runs, jobs and datasets as the index has them, one by one and page by page."""

from __future__ import annotations

from clew.index.notes import IS_NOTES
from clew.index.reader import NAMES, IndexReader, Row

# Times of a run whose START or end was never seen.
_BEGAN = "coalesce(runs.started_at, runs.first_event_at)"
_ENDED = "coalesce(runs.ended_at, runs.last_event_at)"


def run_row(index: IndexReader, run_uuid: str) -> Row | None:
    """A run, or what others say of it."""
    return index.ask_one("select * from all_runs where run_uuid = ?", run_uuid)


def run_io_rows(index: IndexReader, run_uuid: str) -> list[Row]:
    """What a run read and wrote, inputs first."""
    return index.ask(
        """select * from run_io where run_uuid = ?
        order by direction, dataset_namespace, dataset_name, dataset_version""",
        run_uuid,
    )


def child_runs(index: IndexReader, run_uuid: str, limit: int) -> list[Row]:
    """The runs that name a run as their parent: found by reading all runs, so not asked for where it can be avoided."""
    return index.ask(
        "select * from runs where parent_run_uuid = ? order by started_at nulls first, run_uuid limit ?",
        run_uuid,
        limit,
    )


def job_row(index: IndexReader, namespace: str, name: str) -> Row | None:
    """A job, or what others say of it."""
    return index.ask_one("select * from all_jobs where namespace = ? and name = ?", namespace, name)


def dataset_row(index: IndexReader, namespace: str, name: str) -> Row | None:
    """A dataset by this very name, with whether it is gone."""
    return index.ask_one(
        """select dataset_states.*, to_namespace, to_name from dataset_states left join renames using (namespace, name)
        where namespace = ? and name = ?""",
        namespace,
        name,
    )


def node_row(index: IndexReader, namespace: str, name: str) -> Row | None:
    """The node that a name is another name of."""
    return index.ask_one(
        "select node_namespace, node_name from nodes where namespace = ? and name = ?", namespace, name
    )


def other_names(index: IndexReader, namespace: str, name: str) -> list[Row]:
    """All names of a dataset but the one given."""
    return index.ask(
        f"{NAMES} select * from names where (namespace, name) != (?1, ?2) order by 1, 2",  # noqa: S608
        namespace,
        name,
    )


def datasets_after(index: IndexReader, namespace: str | None, after: tuple[str, str], limit: int) -> list[Row]:
    """A page of datasets by name, behind the one given."""
    return index.ask(
        f"""select * from dataset_states where (namespace, name) > (?1, ?2) and namespace = coalesce(?3, namespace)
        and not {IS_NOTES} order by namespace, name limit ?4""",  # noqa: S608
        *after,
        namespace,
        limit,
    )


def jobs_after(index: IndexReader, namespace: str | None, after: tuple[str, str], limit: int) -> list[Row]:
    """A page of jobs by name, behind the one given; those that are only known by name are left out."""
    return index.ask(
        """select * from jobs where (namespace, name) > (?1, ?2) and namespace = coalesce(?3, namespace)
        order by namespace, name limit ?4""",
        *after,
        namespace,
        limit,
    )


def runs_before(
    index: IndexReader, namespace: str, name: str, before: tuple[int | None, str] | None, limit: int
) -> list[Row]:
    """A page of a job's runs, the newest first, behind the one given by start and id; without a start comes last."""
    values: tuple[object, ...] = ()
    if before is None:
        rest = ""
    elif before[0] is None:
        rest, values = "and started_at is null and run_uuid < ?", (before[1],)
    else:
        rest, values = "and ((started_at, run_uuid) < (?, ?) or started_at is null)", before
    query = f"""select * from runs where job_namespace = ? and job_name = ? {rest}
    order by started_at desc, run_uuid desc limit ?"""  # noqa: S608
    return index.ask(query, namespace, name, *values, limit)


def jobs_of(index: IndexReader, namespace: str, name: str, direction: str, limit: int) -> list[Row]:
    """The jobs that read or write a dataset, by whichever of its names."""
    return index.ask(
        f"""{NAMES} select distinct job_namespace, job_name from names
        join job_edges on dataset_namespace = names.namespace and dataset_name = names.name
        where direction = ?3 order by 1, 2 limit ?4""",  # noqa: S608
        namespace,
        name,
        direction,
        limit,
    )


def datasets_of(index: IndexReader, namespace: str, name: str, direction: str, limit: int) -> list[Row]:
    """What a job reads or writes."""
    return index.ask(
        """select dataset_namespace, dataset_name from job_edges
        where job_namespace = ? and job_name = ? and direction = ? order by 1, 2 limit ?""",
        namespace,
        name,
        direction,
        limit,
    )


def schema_text(index: IndexReader, schema_id: str | None) -> str | None:
    """The fields of a schema, as JSON."""
    row = None if schema_id is None else index.ask_one("select fields from schemas where schema_id = ?", schema_id)
    return None if row is None else row["fields"]


def writes_of(index: IndexReader, namespace: str, name: str, limit: int) -> list[Row]:
    """The versions of a dataset, one per completed write or declared state, the newest first."""
    return index.ask(
        f"""{NAMES} select versions.* from names
        join dataset_versions versions on dataset_namespace = names.namespace and dataset_name = names.name
        order by created_at desc, last_seq desc limit ?3""",  # noqa: S608
        namespace,
        name,
        limit,
    )


def run_edges(index: IndexReader, run_uuid: str, limit: int) -> list[Row]:
    """The column edges that a run stated."""
    return index.ask(
        """select * from column_edges where author = ?
        order by dataset_namespace, dataset_name, "column" nulls first, source_namespace, source_name,
        source_column nulls first limit ?""",
        run_uuid,
        limit,
    )


def writer_before(index: IndexReader, read: Row, reader: Row) -> Row | None:
    """The run that had written what a run read: the version that it names, or else the last one before it began."""
    return index.ask_one(
        f"""{NAMES} select runs.* from names
        join run_io on dataset_namespace = names.namespace and dataset_name = names.name and direction = 'OUTPUT'
        join runs using (run_uuid)
        where run_uuid != ?3 and (?4 = '' or dataset_version in (?4, '')) and state not in ('FAILED', 'ABORTED')
        and {_ENDED} <= ?5 order by dataset_version = ?4 desc, {_ENDED} desc, state_seq desc limit 1""",  # noqa: S608
        read["dataset_namespace"],
        read["dataset_name"],
        reader["run_uuid"],
        read["dataset_version"],
        _began(reader),
    )


def readers_after(index: IndexReader, written: Row, writer: Row, limit: int) -> list[Row]:
    """The runs that read what a run had written, before another run wrote it anew."""
    namespace, name = written["dataset_namespace"], written["dataset_name"]
    following = index.ask_one(
        f"""{NAMES} select min({_ENDED}) as ended_at from names
        join run_io on dataset_namespace = names.namespace and dataset_name = names.name and direction = 'OUTPUT'
        join runs using (run_uuid) where run_uuid != ?3 and state not in ('FAILED', 'ABORTED')
        and ({_ENDED}, state_seq) > (?4, ?5)""",  # noqa: S608
        namespace,
        name,
        writer["run_uuid"],
        _ended(writer),
        writer["state_seq"],
    )
    return index.ask(
        f"""{NAMES} select * from (
            select distinct runs.* from names
            join run_io on dataset_namespace = names.namespace and dataset_name = names.name and direction = 'INPUT'
            join runs using (run_uuid)
            where run_uuid != ?3 and {_BEGAN} >= ?4 and ({_BEGAN} < ?5 or ?5 is null)
            and (?6 = '' or dataset_version in (?6, ''))
        ) runs order by {_BEGAN}, run_uuid limit ?7""",  # noqa: S608
        namespace,
        name,
        writer["run_uuid"],
        _ended(writer),
        None if following is None else following["ended_at"],
        written["dataset_version"],
        limit,
    )


def _began(run: Row) -> object:
    return run["first_event_at"] if run["started_at"] is None else run["started_at"]


def _ended(run: Row) -> object:
    return run["last_event_at"] if run["ended_at"] is None else run["ended_at"]
