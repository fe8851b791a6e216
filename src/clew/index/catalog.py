"""Reading entities from the index many at a time: a page of answers takes a handful of queries, however long it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from msgspec import Raw, Struct

from clew.index.bodies import DELETED, StoredFacet
from clew.index.keys import after, entity, parts
from clew.index.notes import IS_NOTES
from clew.index.patterns import IS_LIKE, containing
from clew.index.reader import IndexReader, Row
from clew.index.rows import (
    DATASET_FACETS,
    DATASETS,
    EDGES,
    NAMED,
    NAMED_RUNS,
    RUNS,
    STATEMENTS,
    USED,
    WRITES,
    DatasetRow,
    EdgeRow,
    RunRow,
    StatementRow,
    UsedRow,
    WriteRow,
    listed,
)

Name = tuple[str, str]
Facets = dict[str, Raw]

_CONTEXT = "runs.state as latest_state, runs.location, runs.parent_job_namespace, runs.parent_job_name"
# Names that were hidden, each until the position of an event that tells of it again.
_VISIBLE = """(namespace = ?1 or ?1 is null) and not exists (
    select 1 from json_each(?2) hidden
    where value ->> 0 = namespace and coalesce(value ->> 1, name) = name and cast(value ->> 2 as bigint) >= last_seq)"""
_HAS_STATE = """exists (
    select 1 from runs join json_each(?3) wanted on state = atom where run_uuid = latest_run_uuid)"""
_VERSIONS = f"""select wanted.namespace as job_namespace, wanted.name as job_name, job_version as version,
    ended_at as at, state_seq as seq, run_uuid, location, null as inputs, null as outputs
from {NAMED} cross join runs on job_namespace = wanted.namespace and job_name = wanted.name and job_version is not null
union all
select job_namespace, job_name, version, declared_at, declared_seq, null, location, inputs, outputs
from {NAMED} cross join job_declarations on job_namespace = wanted.namespace and job_name = wanted.name
order by at, seq"""  # noqa: S608


class Hidden(Struct, frozen=True, array_like=True):
    """A name that is not shown until an event after a position tells of it; without a name, a whole namespace."""

    namespace: str
    name: str | None
    seq: int


class CatalogReader(IndexReader):
    """Answers for many entities at once."""

    def change(self) -> object:
        """A value that is another one after every change of the index."""
        return self._database.change()

    def symlinked(self) -> dict[Name, tuple[Name, ...]]:
        """All names of each dataset that has several, that of its node first."""
        by_node: defaultdict[Name, list[Name]] = defaultdict(list)
        rows = self._all("select * from nodes order by namespace, name")
        for row in rows:
            node = row["node_namespace"], row["node_name"]
            by_node[node].append((row["namespace"], row["name"]))
        ordered = {node: tuple(dict.fromkeys((node, *names))) for node, names in by_node.items()}
        return {name: names for names in ordered.values() for name in names}

    def namespaces(self) -> list[Row]:
        """All namespaces, with the times of the first and the last event that speaks of one."""
        return self._all(
            f"""select namespace, min(first_event_at) as first_event_at, max(last_event_at) as last_event_at from (
                select namespace, first_event_at, last_event_at from all_jobs
                union all select namespace, first_event_at, last_event_at from datasets where not {IS_NOTES}
            ) told group by namespace order by namespace"""  # noqa: S608
        )

    def has_namespace(self, name: str) -> bool:
        """Whether an event speaks of a namespace."""
        query = f"""select 1 from all_jobs where namespace = ?1
            union all select 1 from datasets where namespace = ?1 and not {IS_NOTES} limit 1"""  # noqa: S608
        return self._one(query, name) is not None

    def last_told(self, kind: str, namespace: str, name: str | None) -> int | None:
        """The position of the last event that tells of a job, a dataset or a whole namespace."""
        table = "all_jobs" if kind == "job" else "datasets"
        row = self._one(
            f"select max(last_seq) from {table} where namespace = ?1 and (name = ?2 or ?2 is null)",  # noqa: S608
            namespace,
            name,
        )
        return None if row is None else row[0]

    def runs_of(self, run_uuids: Collection[str]) -> dict[str, RunRow]:
        """Runs by their ids; those that are only known by name are placeholders."""
        found = {row[0]: RunRow._make(row) for row in self._plain(*RUNS.of(run_uuids))}
        missing = [one for one in run_uuids if one not in found] if len(found) < len(run_uuids) else ()
        if missing:
            found |= {row[0]: RunRow._make(row) for row in self._plain(*NAMED_RUNS.of(missing))}
        return found

    def used_by(self, run_uuids: Collection[str]) -> dict[str, list[UsedRow]]:
        """What runs read and wrote."""
        found: defaultdict[str, list[UsedRow]] = defaultdict(list)
        for row in self._plain(*USED.of(run_uuids)):
            found[row[0]].append(row)
        return found

    def unpacked(self, body: bytes | None) -> Facets:
        """The facets that stand in a body."""
        return {} if body is None else _standing(self._unpack(body))

    def io_of(self, run_uuids: Iterable[str]) -> dict[str, list[Row]]:
        """What runs read and wrote."""
        found: defaultdict[str, list[Row]] = defaultdict(list)
        query = """select run_uuid, direction, dataset_namespace, dataset_name, dataset_version
            from run_io where run_uuid in (select atom from json_each(?) wanted)
            order by run_uuid, direction, dataset_namespace, dataset_name, dataset_version"""
        for row in self._all(query, listed(list(run_uuids))):
            found[row["run_uuid"]].append(row)
        return found

    def runs_of_job(self, namespace: str, name: str, limit: int, offset: int) -> list[str]:
        """The ids of a job's runs, the last started first."""
        rows = self._all(
            """select run_uuid from runs where job_namespace = ? and job_name = ?
            order by started_at desc, run_uuid desc limit ? offset ?""",
            namespace,
            name,
            limit,
            offset,
        )
        return [row["run_uuid"] for row in rows]

    def count_runs(self, namespace: str, name: str) -> int:
        """How many runs a job has had."""
        return self._count("select count(*) from runs where job_namespace = ? and job_name = ?", namespace, name)

    def latest_runs(self, names: Iterable[Name], most: int) -> dict[Name, list[str]]:
        """The ids of the last runs of each job, the last started first."""
        return {name: self.runs_of_job(*name, most, 0) for name in names}

    def facets_of(self, entities: Collection[tuple[str, str]]) -> dict[tuple[str, str], Facets]:
        """The facets that stand, of entities by their kinds and keys."""
        query = """select kind, entity, body from json_each(?) wanted
            cross join facets on kind = value ->> 0 and entity = value ->> 1"""
        found = self._all(query, listed(entities)) if entities else []
        return {(row["kind"], row["entity"]): _standing(self._unpack(row["body"])) for row in found}

    def dataset_facets_of(self, names: Iterable[Name]) -> dict[Name, Facets]:
        """The facets of datasets, each in the version that was described last."""
        keys = [(*name, begin := entity(*name, ""), after(begin)) for name in names]
        rows = self._plain(*DATASET_FACETS.of(keys))
        return {(row[0], row[1]): _standing(self._unpack(row[2])) for row in rows if row[2] is not None}

    def stored_facets(self, kind: str, *identity: str | None) -> list[StoredFacet]:
        """The facets of one entity with the positions of the events that gave them, those deleted included."""
        return self._facets(kind, entity(*identity))

    def described_since(self, seq: int) -> list[tuple[Name, int, Facets]]:
        """Datasets that got a facet after a position: their names, when that was, and their facets."""
        where = "kind = 'dataset' and last_seq > ?"
        rows = self._all(f"select entity, last_seq, body from facets where {where} order by last_seq, entity", seq)  # noqa: S608
        found = []
        for row in rows:
            namespace, name, *_ = parts(row["entity"])
            found.append(((namespace or "", name or ""), row["last_seq"], _standing(self._unpack(row["body"]))))
        return found

    def job_names(
        self,
        namespace: str | None,
        hidden: Collection[Hidden],
        states: Collection[str] | None,
        limit: int,
        offset: int,
    ) -> list[Name]:
        """Names of jobs, the last changed first: of one namespace or all, by the states of their last runs."""
        where, values = _shown(namespace, hidden, states)
        rows = self._all(
            f"""select namespace, name from all_jobs where {where}
            order by last_event_at desc, namespace, name limit ?{len(values) + 1} offset ?{len(values) + 2}""",  # noqa: S608
            *values,
            limit,
            offset,
        )
        return [(row["namespace"], row["name"]) for row in rows]

    def count_jobs(self, namespace: str | None, hidden: Collection[Hidden], states: Collection[str] | None) -> int:
        """How many jobs `job_names` would list without a limit."""
        where, values = _shown(namespace, hidden, states)
        return self._count(f"select count(*) from all_jobs where {where}", *values)  # noqa: S608

    def jobs_of(self, names: Collection[Name]) -> dict[Name, Row]:
        """Jobs by their names, with what their last runs say."""
        rows = self._all(
            f"""select jobs.*, {_CONTEXT} from {NAMED} cross join jobs using (namespace, name)
            left join runs on run_uuid = latest_run_uuid""",  # noqa: S608
            listed(names),
        )
        found = {(row["namespace"], row["name"]): row for row in rows}
        missing = [name for name in names if name not in found]
        if missing:
            rows = self._all(
                f"""select all_jobs.*, {_CONTEXT} from {NAMED} cross join all_jobs using (namespace, name)
                left join runs on run_uuid = latest_run_uuid where is_placeholder = 1""",  # noqa: S608
                listed(missing),
            )
            found |= {(row["namespace"], row["name"]): row for row in rows}
        return found

    def job_io(self, names: Collection[Name]) -> list[Row]:
        """What jobs read and write, by all that was ever said of them."""
        return self._all(
            f"""select job_namespace, job_name, direction, dataset_namespace, dataset_name from {NAMED}
            join job_edges on job_namespace = wanted.namespace and job_name = wanted.name""",  # noqa: S608
            listed(names),
        )

    def job_versions_of(self, names: Collection[Name]) -> list[Row]:
        """What runs and JobEvents say of the versions of jobs, the earliest first."""
        return self._all(_VERSIONS, listed(names))

    def dataset_names(self, namespace: str, hidden: Collection[Hidden], limit: int, offset: int) -> list[Name]:
        """Names of the datasets of a namespace, in their order."""
        rows = self._all(
            f"select namespace, name from datasets where {_VISIBLE} order by namespace, name limit ?3 offset ?4",  # noqa: S608
            namespace,
            listed(hidden),
            limit,
            offset,
        )
        return [(row["namespace"], row["name"]) for row in rows]

    def count_datasets(self, namespace: str, hidden: Collection[Hidden]) -> int:
        """How many datasets a namespace has."""
        return self._count(f"select count(*) from datasets where {_VISIBLE}", namespace, listed(hidden))  # noqa: S608

    def datasets_of(self, names: Collection[Name]) -> dict[Name, DatasetRow]:
        """Datasets by their names."""
        return {row[:2]: DatasetRow._make(row) for row in self._plain(*DATASETS.of(names))}

    def writes_of(self, names: Collection[Name]) -> Iterator[WriteRow]:
        """What runs that completed, and DatasetEvents, say of the versions of datasets, the earliest first."""
        return self._plain(*WRITES.of(names))

    def statements_on(self, names: Collection[Name]) -> Iterator[StatementRow]:
        """Of which dataset who, by which job, has said which set of edges between columns, the last first."""
        return self._plain(*STATEMENTS.of(names))

    def edges_in(self, edge_sets: Collection[str]) -> dict[str, list[EdgeRow]]:
        """The edges between columns of each set."""
        found: defaultdict[str, list[EdgeRow]] = defaultdict(list)
        for row in self._plain(*EDGES.of(edge_sets)):
            found[row[0]].append(row)
        return found

    def schemas_of(self, schema_ids: Iterable[str]) -> dict[str, str]:
        """Schemas as JSON, by their ids."""
        query = "select schema_id, fields from json_each(?) wanted cross join schemas on schema_id = atom"
        return {row["schema_id"]: row["fields"] for row in self._all(query, listed(list(schema_ids)))}

    def run_events(
        self, after_at: int, before_at: int, since: int, limit: int, offset: int, *, last_first: bool
    ) -> list[int]:
        """Positions of events of runs by their own times, from one moment up to another."""
        order = "desc" if last_first else "asc"
        rows = self._all(
            f"""select seq from run_events where at >= ? and at < ? and seq >= ?
            order by at {order}, seq {order} limit ? offset ?""",  # noqa: S608
            after_at,
            before_at,
            since,
            limit,
            offset,
        )
        return [row["seq"] for row in rows]

    def count_run_events(self, after_at: int, before_at: int, since: int) -> int:
        """How many events `run_events` would list without a limit."""
        query = "select count(*) from run_events where at >= ? and at < ? and seq >= ?"
        return self._count(query, after_at, before_at, since)

    def event_types(self, after_at: int, before_at: int) -> list[Row]:
        """When events of runs took place, and of which type they are."""
        return self._all("select at, event_type from run_events where at >= ? and at < ?", after_at, before_at)

    def first_seen(self, kind: str, before_at: int) -> list[int]:
        """When each job or dataset was first told of, up to a moment."""
        told = "jobs where" if kind == "job" else f"datasets where not {IS_NOTES} and"
        query = f"select first_event_at from {told} first_event_at < ? order by 1"  # noqa: S608
        return [row[0] for row in self._all(query, before_at)]

    def named_like(
        self, kind: str, text: str, namespace: str | None, hidden: Collection[Hidden], span: tuple[int, int]
    ) -> list[Row]:
        """Jobs or datasets whose names hold a text, in whichever letters, and that were told of last in a span."""
        table = "all_jobs" if kind == "job" else "datasets"
        return self._all(
            f"""select namespace, name, last_event_at from {table} where name {IS_LIKE.format(3)} and {_VISIBLE}
            and coalesce(last_event_at, 0) >= ?4 and coalesce(last_event_at, 0) < ?5 order by name, namespace""",  # noqa: S608
            namespace,
            listed(hidden),
            containing(text),
            *span,
        )

    def _count(self, query: str, *values: object) -> int:
        row = self._one(query, *values)
        return 0 if row is None else int(row[0])


def _standing(facets: Iterable[StoredFacet]) -> Facets:
    return {facet.name: Raw(facet.body) for facet in facets if facet.body != DELETED}


def _shown(
    namespace: str | None, hidden: Collection[Hidden], states: Collection[str] | None
) -> tuple[str, tuple[object, ...]]:
    """Which jobs to list: the condition, and its values."""
    values = namespace, listed(hidden)
    return (_VISIBLE, values) if states is None else (f"{_VISIBLE} and {_HAS_STATE}", (*values, listed(states)))
