"""Queries for one or many entities, with exactly the columns of their JSON documents.

Queries for a single entity are separate: they and the short column lists save a large part of the response time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple, Self, TypeAlias

import msgspec

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
    """select run_uuid, direction, dataset_namespace, dataset_name, dataset_version, (
        select body from facets where kind = case direction when 'INPUT' then 'input' else 'output' end and entity_key =
            run_uuid || char(31) || dataset_namespace || char(31) || dataset_name || char(31) || dataset_version)
    from run_io where run_uuid {} order by run_uuid, direction, dataset_namespace, dataset_name, dataset_version"""
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
