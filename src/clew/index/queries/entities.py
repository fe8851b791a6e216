"""Queries of runs, jobs, datasets and versions."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple, Self, TypeAlias

import msgspec

from clew.index.backends.base import Row
from clew.index.encoding import IS_ANNOTATIONS, RUN_DATASET_KEY
from clew.index.queries.reader import ALIASES_CTE, IndexReader

# Names from a JSON list of pairs. SQLite does not reorder a `cross join`, so it looks up only the requested rows.
# `atom` is an item of a list of strings.
REQUESTED_NAMES: Final = "(select value ->> 0 as namespace, value ->> 1 as name from json_each(?1) named) wanted"
# The key is selected first, so that blobs are not sorted.
_LATEST_FACETS = """select body from facets where kind = 'dataset' and entity_key = (
        select entity_key from facets where kind = 'dataset' and entity_key >= {} and entity_key < {}
        order by last_seq desc, entity_key desc limit 1)"""


class RunRecord(NamedTuple):
    """A run with its facet blob; a placeholder has neither times nor facets."""

    run_uuid: str
    job_namespace: str | None
    job_name: str | None
    state: Any
    first_event_at: int | None
    last_event_at: int | None
    nominal_start_at: int | None
    nominal_end_at: int | None
    started_at: int | None
    ended_at: int | None
    parent_run_uuid: str | None
    parent_job_namespace: str | None
    parent_job_name: str | None
    job_version: str | None
    body: bytes | None


class DatasetRecord(NamedTuple):
    """A dataset with its current state."""

    namespace: str
    name: str
    first_event_at: int
    last_event_at: int
    last_seq: int
    lifecycle_state: str | None
    is_deleted: int


# Run, direction, dataset namespace, name and version, and the blob of input or output facets.
RunIoRecord: TypeAlias = tuple[str, str, str, str, str, bytes | None]
# Dataset namespace and name, version, run that wrote it, time, schema id and lifecycle state.
DatasetWriteRecord: TypeAlias = tuple[str, str, str, str | None, int, str | None, str | None]
# Edge set id, column, source namespace, name and column, then type, subtype, description and masking.
EdgeRecord: TypeAlias = tuple[str, str, str, str, str, str, str | None, str | None, int | None]
# Dataset namespace and name, asserter, job namespace and name, and edge set id.
AssertionRecord: TypeAlias = tuple[str, str, str, str | None, str | None, str]


class KeyedQuery(NamedTuple):
    """A query for one key, with the key as parameters, and for many keys, with one JSON list as parameter."""

    one: str
    many: str

    @classmethod
    def by_id(cls, query: str) -> Self:
        """Create for a condition on an id."""
        return cls(query.format("= ?"), query.format("in (select atom from json_each(?) wanted)"))

    @classmethod
    def by_name(cls, query: str) -> Self:
        """Create for a join with the namespaces and names `wanted`."""
        return cls(query.format("(select ?1 as namespace, ?2 as name) wanted"), query.format(REQUESTED_NAMES))

    def bind(self, keys: Collection[str] | Collection[tuple[str, ...]]) -> tuple[str, ...]:
        """Return the query for these keys, and its parameters."""
        if len(keys) != 1:
            return self.many, to_json_array(list(keys))
        (key,) = keys
        return (self.one, key) if isinstance(key, str) else (self.one, *key)


def to_json_array(values: Iterable[object]) -> str:
    """Encode a list as a query parameter."""
    return msgspec.json.encode(values).decode()


def _column_list(record_type: type[tuple[Any, ...]]) -> str:
    return ", ".join(name for name in record_type.__annotations__ if name != "body")


RUNS: Final = KeyedQuery.by_id(
    f"""select {_column_list(RunRecord)}, body
    from runs left join facets on kind = 'run' and entity_key = run_uuid where run_uuid {{}}"""  # noqa: S608
)
# Runs that are only referenced by others.
PLACEHOLDER_RUNS: Final = KeyedQuery.by_id(
    f"select {_column_list(RunRecord)}, null from all_runs where is_placeholder = 1 and run_uuid {{}}"  # noqa: S608
)
RUN_IO: Final = KeyedQuery.by_id(
    f"""select run_uuid, direction, dataset_namespace, dataset_name, dataset_version, (
        select body from facets where kind = case direction when 'INPUT' then 'input' else 'output' end
        and entity_key = {RUN_DATASET_KEY})
    from run_io where run_uuid {{}} order by run_uuid, direction, dataset_namespace, dataset_name, dataset_version"""  # noqa: S608
)
DATASETS: Final = KeyedQuery.by_name(
    f"select {_column_list(DatasetRecord)} from {{}} cross join dataset_states using (namespace, name)"  # noqa: S608
)
# Facets of the dataset version that had facets last; ?3 and ?4 are the key range of the dataset.
DATASET_FACETS: Final = KeyedQuery(
    f"select ?1, ?2, ({_LATEST_FACETS.format('?3', '?4')})",
    f"""select value ->> 0, value ->> 1, ({_LATEST_FACETS.format("value ->> 2", "value ->> 3")})
    from json_each(?) wanted""",  # noqa: S608
)
WRITES: Final = KeyedQuery.by_name(
    """select dataset_namespace, dataset_name, version, run_uuid, created_at, schema_id, lifecycle_state from (
    select written.dataset_namespace, written.dataset_name, written.dataset_version as version, written.run_uuid,
        runs.ended_at as created_at, written.schema_id, null as lifecycle_state, runs.state_seq as seq
    from {0} cross join run_io written on written.dataset_namespace = wanted.namespace
        and written.dataset_name = wanted.name and written.direction = 'OUTPUT'
    join runs on runs.run_uuid = written.run_uuid and runs.state = 'COMPLETED'
    union all
    select dataset_namespace, dataset_name, coalesce(version, ''), null, created_at, nullif(schema_id, ''),
        nullif(lifecycle_state, ''), last_seq
    from {0} cross join dataset_declarations on dataset_namespace = wanted.namespace and dataset_name = wanted.name
    ) writes order by created_at, seq"""
)
ASSERTIONS: Final = KeyedQuery.by_name(
    """select assertion.dataset_namespace, assertion.dataset_name, assertion.asserted_by,
        assertion.job_namespace, assertion.job_name, assertion.edge_set_id
    from {} cross join lineage_assertions assertion
        on assertion.dataset_namespace = wanted.namespace and assertion.dataset_name = wanted.name
    where assertion.edge_set_id != '' and (assertion.origin = 'lineage' or not exists (
        select 1 from lineage_assertions explicit where explicit.asserted_by = assertion.asserted_by
        and explicit.dataset_namespace = assertion.dataset_namespace and explicit.dataset_name = assertion.dataset_name
        and explicit.origin = 'lineage' and explicit.edge_set_id != ''
    )) order by assertion.event_time desc, assertion.seq desc"""
)
EDGES: Final = KeyedQuery.by_id(
    """select edge_set_id, "column", source_namespace, source_name, source_column, type, subtype, description, masking
    from edge_sets where edge_set_id {} and "column" is not null and source_column is not null
    order by edge_set_id, edge_position"""
)


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
