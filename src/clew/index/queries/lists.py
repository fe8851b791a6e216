"""Lists, counts and name search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from clew.events.notebook import NOTEBOOK_NAMESPACE, split_cell_name
from clew.index.backends.base import Row
from clew.index.encoding import IS_ANNOTATIONS, IS_LIKE, like_pattern
from clew.index.queries.entities import REQUESTED_NAMES, EntityQueries, Name, to_json_array
from clew.index.queries.records import RunRecord

# Frames, cells and operations of notebooks: there are thousands, and they are shown with their run.
_IS_FRAME = f"(namespace = '{NOTEBOOK_NAMESPACE}' and name like '%/%')"
_IS_OPERATION = f"({_IS_FRAME} and coalesce(job_type, '') != 'NOTEBOOK')"
_IS_HIDDEN_DATASET = f"({_IS_FRAME} or {IS_ANNOTATIONS})"
_IS_CHILD_RUN = "exists (select 1 from runs parent where parent.run_uuid = runs.parent_run_uuid)"
_IS_LIKE = IS_LIKE.format(1)
_IS_RUN_LIKE = f"coalesce(job_namespace, '') || ' ' || coalesce(job_name, '') {_IS_LIKE}"
_MAX_RESULTS = 100
_HAS_STATE = "exists (select 1 from runs join json_each(?) wanted on state = atom where run_uuid = latest_run_uuid)"
# A name is hidden until a later event references it.
_IS_VISIBLE = """not exists (select 1 from json_each(?) hidden
    where value ->> 0 = namespace and coalesce(value ->> 1, name) = name and cast(value ->> 2 as bigint) >= last_seq)"""
# Tables by name; `jobs` and `all_jobs` are without and with placeholders.
EntityTable = Literal["jobs", "all_jobs", "datasets", "dataset_states"]
EntityOrder = Literal["name", "last event", "last position"]
_ORDERS: Final[dict[EntityOrder, str]] = {
    "name": "namespace, name",
    "last event": "last_event_at desc, last_seq desc, namespace, name",
    "last position": "last_seq desc, namespace, name",
}


class HiddenUntil(Struct, frozen=True, array_like=True):
    """A soft-deleted name, hidden until an event after `seq` references it; without a name, a whole namespace."""

    namespace: str
    name: str | None
    seq: int


class EntityFilter(Struct, frozen=True):
    """Filter of a list of jobs or datasets; each condition is optional.

    `text`: part of the namespace and name. `after`: only names after this one. `states`: of the last run of a job.
    `hidden`: names that are left out.
    """

    namespace: str | None = None
    text: str | None = None
    after: Name | None = None
    states: Collection[str] | None = None
    hidden: Collection[HiddenUntil] = ()
    with_operations: bool = True

    def where(self, table: EntityTable) -> tuple[str, tuple[object, ...]]:
        """Return the condition on the rows of a table, and its parameters."""
        conditions = {
            "namespace = ?": (self.namespace,) if self.namespace is not None else None,
            f"namespace || ' ' || name {IS_LIKE.format('')}": (
                None if self.text is None else (like_pattern(self.text),)
            ),
            "(namespace, name) > (?, ?)": self.after,
            _HAS_STATE: None if self.states is None else (to_json_array(self.states),),
            _IS_VISIBLE: (to_json_array(self.hidden),) if self.hidden else None,
            f"not {_IS_OPERATION if table.endswith('jobs') else _IS_FRAME}": None if self.with_operations else (),
        }
        used = {condition: values for condition, values in conditions.items() if values is not None}
        return " and ".join(used) or "true", tuple(value for values in used.values() for value in values)


class DatasetActivity(NamedTuple):
    """Last event of a dataset, and whether it is deleted."""

    last_event_at: int
    is_deleted: bool


# The name with the last event is the last one.
_STATES_OF_ALIASES: Final = f"""select own.namespace, own.name, state.last_event_at, state.is_deleted
from {REQUESTED_NAMES} cross join dataset_aliases own on own.namespace = wanted.namespace and own.name = wanted.name
join dataset_aliases other
    on other.canonical_namespace = own.canonical_namespace and other.canonical_name = own.canonical_name
join dataset_states state on state.namespace = other.namespace and state.name = other.name
order by state.last_seq"""  # noqa: S608


class PageQueries(EntityQueries):
    """Queries of lists of entities."""

    def counts(self) -> Row | None:
        """Return the numbers of datasets, jobs, runs and notebook sessions, counted as in the lists."""
        return self.query_one(
            f"""select (select count(*) from datasets where not {_IS_HIDDEN_DATASET}) as datasets,
            (select count(*) from jobs where not {_IS_OPERATION}) as jobs,
            (select count(*) from runs where not {_IS_CHILD_RUN}) as runs,
            (select count(distinct session_id) from cell_executions) as sessions"""  # noqa: S608
        )

    def entities(
        self, table: EntityTable, entity_filter: EntityFilter, order: EntityOrder, limit: int, offset: int = 0
    ) -> list[Row]:
        """Return jobs or datasets, without the dataset of annotations."""
        where, values = entity_filter.where(table)
        return self.query(
            f"select * from {_source(table)} and {where} order by {_ORDERS[order]} limit ? offset ?",  # noqa: S608
            *values,
            limit,
            offset,
        )

    def entity_page(
        self, table: EntityTable, entity_filter: EntityFilter, order: EntityOrder, limit: int, offset: int = 0
    ) -> tuple[list[Row], int]:
        """Return a page of jobs or datasets, and their total number."""
        where, values = entity_filter.where(table)
        total = self.count(f"select count(*) from {_source(table)} and {where}", *values)  # noqa: S608
        return self.entities(table, entity_filter, order, limit, offset), total

    def activity_of(self, rows: Sequence[Row]) -> dict[Name, DatasetActivity]:
        """Return the last event of listed datasets under any of their names, and whether they are deleted."""
        states = {
            (row["namespace"], row["name"]): DatasetActivity(row["last_event_at"], bool(row["is_deleted"]))
            for row in rows
        }
        aliases = self.stream(_STATES_OF_ALIASES, to_json_array(list(states))) if states else ()
        for namespace, name, last_event_at, is_deleted in aliases:
            latest = max(last_event_at, states[namespace, name].last_event_at)
            states[namespace, name] = DatasetActivity(latest, bool(is_deleted))
        return states

    def run_page(self, text: str, state: str, limit: int) -> tuple[list[RunRecord], int]:
        """Return runs without a parent, newest first, and their total number."""
        where = f"where not {_IS_CHILD_RUN} and (?2 = '' or state = ?2) and {_IS_RUN_LIKE}"
        runs = self.run_records(
            f"{where} order by last_event_at desc, run_uuid limit ?3", like_pattern(text), state, limit
        )
        return runs, self.count(f"select count(*) from runs {where}", like_pattern(text), state)  # noqa: S608

    def children(self, run_uuid: str, limit: int) -> tuple[list[RunRecord], int]:
        """Return the child runs of a run, ordered by start, and their total number."""
        order = "coalesce(started_at, first_event_at), first_event_at, run_uuid"
        runs = self.run_records(f"where parent_run_uuid = ? order by {order} limit ?", run_uuid, limit)
        return runs, self.count("select count(*) from runs where parent_run_uuid = ?", run_uuid)

    def namespaces(self) -> list[Row]:
        """Return all namespaces with the times of their first and last event."""
        return self.query(
            f"""select namespace, min(first_event_at) as first_event_at, max(last_event_at) as last_event_at from (
                select namespace, first_event_at, last_event_at from all_jobs
                union all select namespace, first_event_at, last_event_at from datasets where not {IS_ANNOTATIONS}
            ) entities group by namespace order by namespace"""  # noqa: S608
        )

    def has_namespace(self, name: str) -> bool:
        """Return True if a job or dataset has this namespace."""
        query = f"""select 1 from all_jobs where namespace = ?1
            union all select 1 from datasets where namespace = ?1 and not {IS_ANNOTATIONS} limit 1"""  # noqa: S608
        return self.query_one(query, name) is not None

    def last_event_seq(self, kind: str, namespace: str, name: str | None) -> int | None:
        """Return the position of the last event of a job, a dataset or a whole namespace."""
        table = "all_jobs" if kind == "job" else "datasets"
        row = self.query_one(
            f"select max(last_seq) from {table} where namespace = ?1 and (name = ?2 or ?2 is null)",  # noqa: S608
            namespace,
            name,
        )
        return None if row is None else row[0]

    def job_and_operations(self, job: Name) -> list[Name]:
        """Return a job, and for a notebook the jobs of its operations."""
        rows = self.query(
            f"""select namespace, name from jobs where namespace = ?1 and namespace = '{NOTEBOOK_NAMESPACE}'
            and name >= ?2 || '/' and name < ?2 || '0' order by name""",  # noqa: S608
            *job,
        )
        names = [(row["namespace"], row["name"]) for row in rows]
        # Notebooks in a folder with the name of this one are other jobs.
        return [job, *(name for name in names if (split_cell_name(name[1]) or ("",))[0] == job[1])]

    def time_range(self) -> Row | None:
        """Return the times of the first and the last event of all runs."""
        return self.query_one("select min(first_event_at) as first, max(last_event_at) as last from runs")

    def first_event_time(self) -> int | None:
        """Return the time of the first event of a run, or else of a dataset."""
        row = self.query_one(
            """select coalesce((select min(first_event_at) from runs), (
                select min(first_event_at) from datasets)) as first"""
        )
        return None if row is None else row["first"]

    def operation_code(self, run_uuids: Collection[str]) -> dict[str, str]:
        """Return the code of notebook operations by run."""
        rows = self.query(
            """select run_uuid, operation_code from operations
            where run_uuid in (select atom from json_each(?) wanted) and operation_code is not null""",
            to_json_array(sorted(run_uuids)),
        )
        return {row["run_uuid"]: row["operation_code"] for row in rows}

    def run_events(
        self, after_at: int, before_at: int, since: int, limit: int, offset: int, *, is_newest_first: bool
    ) -> list[int]:
        """Return the positions of run events in a range of event times, ordered by event time."""
        order = "desc" if is_newest_first else "asc"
        rows = self.query(
            f"""select seq from run_events where event_time >= ? and event_time < ? and seq >= ?
            order by event_time {order}, seq {order} limit ? offset ?""",  # noqa: S608
            after_at,
            before_at,
            since,
            limit,
            offset,
        )
        return [row["seq"] for row in rows]

    def count_run_events(self, after_at: int, before_at: int, since: int) -> int:
        """Count the events that `run_events` returns without a limit."""
        query = "select count(*) from run_events where event_time >= ? and event_time < ? and seq >= ?"
        return self.count(query, after_at, before_at, since)

    def event_types(self, after_at: int, before_at: int) -> list[Row]:
        """Return times and types of run events in a range of event times."""
        query = "select event_time, event_type from run_events where event_time >= ? and event_time < ?"
        return self.query(query, after_at, before_at)

    def first_event_times(self, kind: str, before_at: int) -> list[int]:
        """Return the first event times of all jobs or datasets before a time."""
        source = "jobs where" if kind == "job" else f"datasets where not {IS_ANNOTATIONS} and"
        query = f"select first_event_at from {source} first_event_at < ? order by 1"  # noqa: S608
        return [row[0] for row in self.query(query, before_at)]

    def search_names(
        self, table: EntityTable, text: str, entity_filter: EntityFilter, time_range: tuple[int, int]
    ) -> list[Row]:
        """Return jobs or datasets by part of the name without the namespace, with the last event in a time range."""
        where, values = entity_filter.where(table)
        return self.query(
            f"""select namespace, name, last_event_at from {_source(table)} and {where} and name {IS_LIKE.format("")}
            and coalesce(last_event_at, 0) >= ? and coalesce(last_event_at, 0) < ? order by name, namespace""",  # noqa: S608
            *values,
            like_pattern(text),
            *time_range,
        )

    def search_columns(self, text: str) -> list[Row]:
        """Return columns by part of the name, with their datasets."""
        return self.query(
            f"""select * from (
                select distinct namespace, name, schemas.fields ->> (field.fullkey || '.name') as column_name from (
                    select distinct dataset_namespace as namespace, dataset_name as name, schema_id from run_io
                    where schema_id is not null
                ) versions join schemas using (schema_id), json_each(schemas.fields) field
                where not {_IS_FRAME} and schemas.fields ->> (field.fullkey || '.name') {_IS_LIKE}
            ) columns order by length(column_name), 1, 2, 3 limit ?2""",  # noqa: S608
            like_pattern(text),
            _MAX_RESULTS,
        )

    def search_runs(self, text: str) -> list[RunRecord]:
        """Return runs by prefix of the id."""
        condition = "where run_uuid >= ?1 and run_uuid < ?1 || '~' order by run_uuid limit ?2"
        return self.run_records(condition, text.lower(), _MAX_RESULTS)

    def search_code(self, text: str) -> list[Row]:
        """Return notebook operations by part of the code, the last one per distinct code."""
        return self.query(
            f"""select notebook, session_id, operation_code as line from (
                select operations.*, row_number() over (
                    partition by notebook, operation_code order by event_time desc, last_seq desc) as recency
                from operations where operation_code {_IS_LIKE}
            ) ranked where recency = 1 order by event_time desc, last_seq desc limit ?2""",  # noqa: S608
            like_pattern(text),
            _MAX_RESULTS,
        )


def _source(table: EntityTable) -> str:
    return f"{table} where {'true' if table.endswith('jobs') else f'not {IS_ANNOTATIONS}'}"
