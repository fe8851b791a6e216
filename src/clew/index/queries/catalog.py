"""Batched queries for entities: a page needs a handful of queries, whatever its length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from msgspec import Raw, Struct

from clew.index.backends.base import Row
from clew.index.encoding import (
    DELETED,
    IS_ANNOTATIONS,
    IS_LIKE,
    StoredFacet,
    entity_key,
    like_pattern,
    prefix_end,
    split_key,
)
from clew.index.queries.entities import (
    ASSERTIONS,
    DATASET_FACETS,
    DATASETS,
    EDGES,
    PLACEHOLDER_RUNS,
    REQUESTED_NAMES,
    RUN_IO,
    RUNS,
    WRITES,
    AssertionRecord,
    DatasetRecord,
    DatasetWriteRecord,
    EdgeRecord,
    RunIoRecord,
    RunRecord,
    to_json_array,
)
from clew.index.queries.reader import IndexReader

Name = tuple[str, str]
Facets = dict[str, Raw]

_CONTEXT = "runs.state as latest_state, runs.source_code_location, runs.parent_job_namespace, runs.parent_job_name"
# Without hidden names; a name is hidden until a later event references it.
_VISIBLE = """(namespace = ?1 or ?1 is null) and not exists (
    select 1 from json_each(?2) hidden
    where value ->> 0 = namespace and coalesce(value ->> 1, name) = name and cast(value ->> 2 as bigint) >= last_seq)"""
_HAS_STATE = """exists (
    select 1 from runs join json_each(?3) wanted on state = atom where run_uuid = latest_run_uuid)"""
_VERSIONS = f"""select wanted.namespace as job_namespace, wanted.name as job_name, job_version as version,
    ended_at as observed_at, state_seq as seq, run_uuid, source_code_location, null as inputs, null as outputs
from {REQUESTED_NAMES} cross join runs
on job_namespace = wanted.namespace and job_name = wanted.name and job_version is not null
union all
select job_namespace, job_name, version, declared_at, declared_seq, null, source_code_location, inputs, outputs
from {REQUESTED_NAMES} cross join job_declarations on job_namespace = wanted.namespace and job_name = wanted.name
order by observed_at, seq"""  # noqa: S608


class HiddenUntil(Struct, frozen=True, array_like=True):
    """A soft-deleted name, hidden until an event after `seq` references it; without a name, a whole namespace."""

    namespace: str
    name: str | None
    seq: int


class EntityQueries(IndexReader):
    """Queries for many entities at once."""

    def data_version(self) -> object:
        """Return a value that changes with every commit to the index."""
        return self._database.data_version()

    def aliases_by_dataset(self) -> dict[Name, tuple[Name, ...]]:
        """Map each name of a dataset with aliases to all its names, the canonical one first."""
        by_canonical: defaultdict[Name, list[Name]] = defaultdict(list)
        rows = self._rows("select * from dataset_aliases order by namespace, name")
        for row in rows:
            canonical = row["canonical_namespace"], row["canonical_name"]
            by_canonical[canonical].append((row["namespace"], row["name"]))
        groups = (tuple(dict.fromkeys((canonical, *names))) for canonical, names in by_canonical.items())
        return {name: names for names in groups for name in names}

    def namespaces(self) -> list[Row]:
        """Return all namespaces with the times of their first and last event."""
        return self._rows(
            f"""select namespace, min(first_event_at) as first_event_at, max(last_event_at) as last_event_at from (
                select namespace, first_event_at, last_event_at from all_jobs
                union all select namespace, first_event_at, last_event_at from datasets where not {IS_ANNOTATIONS}
            ) entities group by namespace order by namespace"""  # noqa: S608
        )

    def has_namespace(self, name: str) -> bool:
        """Return True if a job or dataset has this namespace."""
        query = f"""select 1 from all_jobs where namespace = ?1
            union all select 1 from datasets where namespace = ?1 and not {IS_ANNOTATIONS} limit 1"""  # noqa: S608
        return self._row(query, name) is not None

    def last_event_seq(self, kind: str, namespace: str, name: str | None) -> int | None:
        """Return the position of the last event of a job, a dataset or a whole namespace."""
        table = "all_jobs" if kind == "job" else "datasets"
        row = self._row(
            f"select max(last_seq) from {table} where namespace = ?1 and (name = ?2 or ?2 is null)",  # noqa: S608
            namespace,
            name,
        )
        return None if row is None else row[0]

    def runs_of(self, run_uuids: Collection[str]) -> dict[str, RunRecord]:
        """Return runs by id, including placeholders."""
        runs = {row[0]: RunRecord._make(row) for row in self._tuples(*RUNS.bind(run_uuids))}
        missing = [run_uuid for run_uuid in run_uuids if run_uuid not in runs] if len(runs) < len(run_uuids) else ()
        if missing:
            runs |= {row[0]: RunRecord._make(row) for row in self._tuples(*PLACEHOLDER_RUNS.bind(missing))}
        return runs

    def io_with_facets(self, run_uuids: Collection[str]) -> dict[str, list[RunIoRecord]]:
        """Return the inputs and outputs of runs with their facet blobs, by run."""
        by_run: defaultdict[str, list[RunIoRecord]] = defaultdict(list)
        for row in self._tuples(*RUN_IO.bind(run_uuids)):
            by_run[row[0]].append(row)
        return by_run

    def decode_facets(self, body: bytes | None) -> Facets:
        """Decode the facets of a blob, without deleted ones."""
        return {} if body is None else _live_facets(self._decode_blob(body))

    def io_of(self, run_uuids: Iterable[str]) -> dict[str, list[Row]]:
        """Return the inputs and outputs of runs, by run."""
        by_run: defaultdict[str, list[Row]] = defaultdict(list)
        query = """select run_uuid, direction, dataset_namespace, dataset_name, dataset_version
            from run_io where run_uuid in (select atom from json_each(?) wanted)
            order by run_uuid, direction, dataset_namespace, dataset_name, dataset_version"""
        for row in self._rows(query, to_json_array(list(run_uuids))):
            by_run[row["run_uuid"]].append(row)
        return by_run

    def runs_of_job(self, namespace: str, name: str, limit: int, offset: int) -> list[str]:
        """Return the ids of a job's runs, newest first."""
        rows = self._rows(
            """select run_uuid from runs where job_namespace = ? and job_name = ?
            order by started_at desc, run_uuid desc limit ? offset ?""",
            namespace,
            name,
            limit,
            offset,
        )
        return [row["run_uuid"] for row in rows]

    def count_runs(self, namespace: str, name: str) -> int:
        """Count the runs of a job."""
        return self._count("select count(*) from runs where job_namespace = ? and job_name = ?", namespace, name)

    def latest_runs(self, names: Iterable[Name], limit: int) -> dict[Name, list[str]]:
        """Return the ids of the last runs of each job, newest first."""
        return {name: self.runs_of_job(*name, limit, 0) for name in names}

    def facets_of(self, entities: Collection[tuple[str, str]]) -> dict[tuple[str, str], Facets]:
        """Return the facets of entities by kind and key, without deleted ones."""
        query = """select kind, entity_key, body from json_each(?) wanted
            cross join facets on kind = value ->> 0 and entity_key = value ->> 1"""
        rows = self._rows(query, to_json_array(entities)) if entities else []
        return {(row["kind"], row["entity_key"]): _live_facets(self._decode_blob(row["body"])) for row in rows}

    def dataset_facets_of(self, names: Iterable[Name]) -> dict[Name, Facets]:
        """Return the facets of datasets, each of the version that had facets last."""
        keys = [(*name, begin := entity_key(*name, ""), prefix_end(begin)) for name in names]
        rows = self._tuples(*DATASET_FACETS.bind(keys))
        return {(row[0], row[1]): _live_facets(self._decode_blob(row[2])) for row in rows if row[2] is not None}

    def stored_facets(self, kind: str, *identity: str | None) -> list[StoredFacet]:
        """Return the facets of an entity with the positions of their events, including deleted ones."""
        return self._facets(kind, entity_key(*identity))

    def facets_changed_since(self, seq: int) -> list[tuple[Name, int, Facets]]:
        """Return datasets with facets changed after a position: name, position and facets."""
        rows = self._rows(
            """select entity_key, last_seq, body from facets where kind = 'dataset' and last_seq > ?
            order by last_seq, entity_key""",
            seq,
        )
        changed = []
        for row in rows:
            namespace, name, *_ = split_key(row["entity_key"])
            facets = _live_facets(self._decode_blob(row["body"]))
            changed.append(((namespace or "", name or ""), row["last_seq"], facets))
        return changed

    def job_names(
        self,
        namespace: str | None,
        hidden: Collection[HiddenUntil],
        states: Collection[str] | None,
        limit: int,
        offset: int,
    ) -> list[Name]:
        """Return names of jobs, most recent event first, filtered by namespace and state of the last run."""
        where, values = _visible_where(namespace, hidden, states)
        rows = self._rows(
            f"""select namespace, name from all_jobs where {where}
            order by last_event_at desc, namespace, name limit ?{len(values) + 1} offset ?{len(values) + 2}""",  # noqa: S608
            *values,
            limit,
            offset,
        )
        return [(row["namespace"], row["name"]) for row in rows]

    def count_jobs(self, namespace: str | None, hidden: Collection[HiddenUntil], states: Collection[str] | None) -> int:
        """Count the jobs that `job_names` returns without a limit."""
        where, values = _visible_where(namespace, hidden, states)
        return self._count(f"select count(*) from all_jobs where {where}", *values)  # noqa: S608

    def jobs_of(self, names: Collection[Name]) -> dict[Name, Row]:
        """Return jobs by name with values of their last runs, including placeholders."""
        rows = self._rows(
            f"""select jobs.*, {_CONTEXT} from {REQUESTED_NAMES} cross join jobs using (namespace, name)
            left join runs on run_uuid = latest_run_uuid""",  # noqa: S608
            to_json_array(names),
        )
        jobs = {(row["namespace"], row["name"]): row for row in rows}
        missing = [name for name in names if name not in jobs]
        if missing:
            rows = self._rows(
                f"""select all_jobs.*, {_CONTEXT} from {REQUESTED_NAMES} cross join all_jobs using (namespace, name)
                left join runs on run_uuid = latest_run_uuid where is_placeholder = 1""",  # noqa: S608
                to_json_array(missing),
            )
            jobs |= {(row["namespace"], row["name"]): row for row in rows}
        return jobs

    def job_io(self, names: Collection[Name]) -> list[Row]:
        """Return the inputs and outputs of jobs."""
        return self._rows(
            f"""select job_namespace, job_name, direction, dataset_namespace, dataset_name from {REQUESTED_NAMES}
            join job_edges on job_namespace = wanted.namespace and job_name = wanted.name""",  # noqa: S608
            to_json_array(names),
        )

    def job_versions_of(self, names: Collection[Name]) -> list[Row]:
        """Return the job versions of runs and JobEvents, oldest first."""
        return self._rows(_VERSIONS, to_json_array(names))

    def dataset_names(self, namespace: str, hidden: Collection[HiddenUntil], limit: int, offset: int) -> list[Name]:
        """Return the names of the datasets of a namespace, sorted."""
        rows = self._rows(
            f"select namespace, name from datasets where {_VISIBLE} order by namespace, name limit ?3 offset ?4",  # noqa: S608
            namespace,
            to_json_array(hidden),
            limit,
            offset,
        )
        return [(row["namespace"], row["name"]) for row in rows]

    def count_datasets(self, namespace: str, hidden: Collection[HiddenUntil]) -> int:
        """Count the datasets of a namespace."""
        return self._count(f"select count(*) from datasets where {_VISIBLE}", namespace, to_json_array(hidden))  # noqa: S608

    def datasets_of(self, names: Collection[Name]) -> dict[Name, DatasetRecord]:
        """Return datasets by name."""
        return {row[:2]: DatasetRecord._make(row) for row in self._tuples(*DATASETS.bind(names))}

    def writes_of(self, names: Collection[Name]) -> Iterator[DatasetWriteRecord]:
        """Return dataset versions of completed runs and DatasetEvents, oldest first."""
        return self._tuples(*WRITES.bind(names))

    def assertions_on(self, names: Collection[Name]) -> Iterator[AssertionRecord]:
        """Return the assertions on datasets, newest first."""
        return self._tuples(*ASSERTIONS.bind(names))

    def edges_by_set(self, edge_set_ids: Collection[str]) -> dict[str, list[EdgeRecord]]:
        """Return the column edges of edge sets by id."""
        edges: defaultdict[str, list[EdgeRecord]] = defaultdict(list)
        for row in self._tuples(*EDGES.bind(edge_set_ids)):
            edges[row[0]].append(row)
        return edges

    def schemas_of(self, schema_ids: Iterable[str]) -> dict[str, str]:
        """Return schemas as JSON, by id."""
        query = "select schema_id, fields from json_each(?) wanted cross join schemas on schema_id = atom"
        return {row["schema_id"]: row["fields"] for row in self._rows(query, to_json_array(list(schema_ids)))}

    def run_events(
        self, after_at: int, before_at: int, since: int, limit: int, offset: int, *, is_newest_first: bool
    ) -> list[int]:
        """Return the positions of run events in a range of event times, ordered by event time."""
        order = "desc" if is_newest_first else "asc"
        rows = self._rows(
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
        return self._count(query, after_at, before_at, since)

    def event_types(self, after_at: int, before_at: int) -> list[Row]:
        """Return times and types of run events in a range of event times."""
        query = "select event_time, event_type from run_events where event_time >= ? and event_time < ?"
        return self._rows(query, after_at, before_at)

    def first_seen(self, kind: str, before_at: int) -> list[int]:
        """Return the first event times of all jobs or datasets before a time."""
        source = "jobs where" if kind == "job" else f"datasets where not {IS_ANNOTATIONS} and"
        query = f"select first_event_at from {source} first_event_at < ? order by 1"  # noqa: S608
        return [row[0] for row in self._rows(query, before_at)]

    def search_names(
        self, kind: str, text: str, namespace: str | None, hidden: Collection[HiddenUntil], time_range: tuple[int, int]
    ) -> list[Row]:
        """Return jobs or datasets by part of the name, with the last event in a time range."""
        table = "all_jobs" if kind == "job" else "datasets"
        return self._rows(
            f"""select namespace, name, last_event_at from {table} where name {IS_LIKE.format(3)} and {_VISIBLE}
            and coalesce(last_event_at, 0) >= ?4 and coalesce(last_event_at, 0) < ?5 order by name, namespace""",  # noqa: S608
            namespace,
            to_json_array(hidden),
            like_pattern(text),
            *time_range,
        )

    def _count(self, query: str, *values: object) -> int:
        row = self._row(query, *values)
        return 0 if row is None else int(row[0])


def _live_facets(facets: Iterable[StoredFacet]) -> Facets:
    return {facet.name: Raw(facet.body) for facet in facets if facet.body != DELETED}


def _visible_where(
    namespace: str | None, hidden: Collection[HiddenUntil], states: Collection[str] | None
) -> tuple[str, tuple[object, ...]]:
    """Return the condition for visible jobs, and its parameters."""
    values = namespace, to_json_array(hidden)
    return (_VISIBLE, values) if states is None else (f"{_VISIBLE} and {_HAS_STATE}", (*values, to_json_array(states)))
