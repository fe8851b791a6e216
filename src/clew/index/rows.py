"""Runs and datasets as their documents need them.

A row has what a document says and nothing else, and a query for one entity is written for one: both are a good part
of what an answer costs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple, Self, TypeAlias

import msgspec

# Names as a JSON list of pairs, one row for each. SQLite keeps the order of a `cross join`: by the few that are asked
# for, never by all that there are. Of a list of texts, `atom` is one.
NAMED: Final = "(select value ->> 0 as namespace, value ->> 1 as name from json_each(?1) named) wanted"
# By its key, once that is known: bodies are not put in order.
_LAST_DESCRIBED = """select body from facets where kind = 'dataset' and entity = (
        select entity from facets where kind = 'dataset' and entity >= {} and entity < {}
        order by last_seq desc, entity desc limit 1)"""


class RunRow(NamedTuple):
    """A run, with its facets, packed; one that is only known by name has neither times nor facets."""

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


class DatasetRow(NamedTuple):
    """A dataset as it is now."""

    namespace: str
    name: str
    first_event_at: int
    last_event_at: int
    last_seq: int
    lifecycle_state: str | None
    is_deleted: int


# A run; which way it used a dataset, its namespace and name, in which version, and the facets that the run gave it,
# packed.
UsedRow: TypeAlias = tuple[str, str, str, str, str, bytes | None]
# Namespace and name of a dataset; what a version of it is called, the run that wrote it, when, with which schema and
# in which state.
WriteRow: TypeAlias = tuple[str, str, str, str | None, int, str | None, str | None]
# A set of edges; a column, and of the one that it came from the namespace and name of the dataset and its own name;
# type, subtype and description of how, and whether that masks.
EdgeRow: TypeAlias = tuple[str, str, str, str, str, str, str | None, str | None, int | None]
# Namespace and name of a dataset; who spoke of its columns, for which job, and the set of edges that was named.
StatementRow: TypeAlias = tuple[str, str, str, str | None, str | None, str]


class Asking(NamedTuple):
    """A query for one entity, whose key is its values, and the same for many, whose keys are one JSON list."""

    one: str
    many: str

    @classmethod
    def by_id(cls, query: str) -> Self:
        """Where a column is an id."""
        return cls(query.format("= ?"), query.format("in (select atom from json_each(?) wanted)"))

    @classmethod
    def by_name(cls, query: str) -> Self:
        """Where namespaces and names are `wanted`."""
        return cls(query.format("(select ?1 as namespace, ?2 as name) wanted"), query.format(NAMED))

    def of(self, keys: Collection[str] | Collection[tuple[str, ...]]) -> tuple[str, ...]:
        """What to ask, and the values to ask it with."""
        if len(keys) != 1:
            return self.many, listed(list(keys))
        (key,) = keys
        return (self.one, key) if isinstance(key, str) else (self.one, *key)


def listed(values: Iterable[object]) -> str:
    """A list as a value of a query."""
    return msgspec.json.encode(values).decode()


def _named(kind: type[tuple[Any, ...]]) -> str:
    return ", ".join(name for name in kind.__annotations__ if name != "body")


RUNS: Final = Asking.by_id(
    f"""select {_named(RunRow)}, body
    from runs left join facets on kind = 'run' and entity = run_uuid where run_uuid {{}}"""  # noqa: S608
)
# Runs that others name, and that have told nothing themselves.
NAMED_RUNS: Final = Asking.by_id(
    f"select {_named(RunRow)}, null from all_runs where is_placeholder = 1 and run_uuid {{}}"  # noqa: S608
)
USED: Final = Asking.by_id(
    """select run_uuid, direction, dataset_namespace, dataset_name, dataset_version, (
        select body from facets where kind = case direction when 'INPUT' then 'input' else 'output' end and entity =
            run_uuid || char(31) || dataset_namespace || char(31) || dataset_name || char(31) || dataset_version)
    from run_io where run_uuid {} order by run_uuid, direction, dataset_namespace, dataset_name, dataset_version"""
)
DATASETS: Final = Asking.by_name(
    f"select {_named(DatasetRow)} from {{}} cross join dataset_states using (namespace, name)"  # noqa: S608
)
# The facets of a dataset in the version that was described last, between the first and the last key that it may have.
DATASET_FACETS: Final = Asking(
    f"select ?1, ?2, ({_LAST_DESCRIBED.format('?3', '?4')})",
    f"""select value ->> 0, value ->> 1, ({_LAST_DESCRIBED.format("value ->> 2", "value ->> 3")})
    from json_each(?) wanted""",  # noqa: S608
)
WRITES: Final = Asking.by_name(
    """select dataset_namespace, dataset_name, said, run_uuid, created_at, schema_id, lifecycle_state from (
    select written.dataset_namespace, written.dataset_name, written.dataset_version as said, written.run_uuid,
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
STATEMENTS: Final = Asking.by_name(
    """select said.dataset_namespace, said.dataset_name, said.author, said.job_namespace, said.job_name, said.edge_set
    from {} cross join statements said
        on said.dataset_namespace = wanted.namespace and said.dataset_name = wanted.name
    where said.edge_set != '' and (said.origin = 'lineage' or not exists (
        select 1 from statements explicit where explicit.author = said.author
        and explicit.dataset_namespace = said.dataset_namespace and explicit.dataset_name = said.dataset_name
        and explicit.origin = 'lineage' and explicit.edge_set != ''
    )) order by said.event_time desc, said.seq desc"""
)
EDGES: Final = Asking.by_id(
    """select edge_set, "column", source_namespace, source_name, source_column, type, subtype, description, masking
    from edge_sets where edge_set {} and "column" is not null and source_column is not null
    order by edge_set, ordinal"""
)
