"""Index reader: sessions, names, column edges and graphs; it has the queries of the other modules, too."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain
from typing import Any, Final
from zlib import crc32

from clew.index.backends.base import Row
from clew.index.encoding import DATASETS, split_key
from clew.index.queries.connection import ALIASES_CTE
from clew.index.queries.entities import NO_LIMIT, Facets, KeyedQuery, Name
from clew.index.queries.lists import PageQueries
from clew.index.queries.records import AssertedEdge
from clew.index.visibility import HIDDEN_EDGE_SET, HIDDEN_EDGES, VISIBLE_EDGES

_KEY = "'{kind}' || char(31) || {namespace} || char(31) || {name}"


def _key(kind: str, prefix: str = "", table: str = "") -> str:
    return _KEY.format(kind=kind, namespace=f"{table}{prefix}namespace", name=f"{table}{prefix}name")


JOB_EDGES: Final = f"""select {_key("job", "job_")}, {_key("dataset", "dataset_")}, direction = 'INPUT', is_implied,
first_event_at from job_edges"""  # noqa: S608
RENAMES: Final = f"""select {_key("dataset")}, {_key("dataset", "to_")}, renamed_at from renames"""  # noqa: S608
JOB_DEPENDENCIES: Final = f"""select 'job' || char(31) || (source.value ->> 0) || char(31) || (source.value ->> 1),
{_key("job", "job_")}, min(event_time)
from job_dependency_assertions assertion, json_each(assertion.upstream) source group by 1, 2"""  # noqa: S608
DATASET_ASSERTED_EDGES: Final = f"""select distinct
{_key("dataset", "source_")}, {_key("dataset", "dataset_")}, event_time
from lineage_assertions join edge_sets using (edge_set_id) where job_name is null"""  # noqa: S608
CANONICAL_NAMES: Final = f"""select {_key("dataset")}, {_key("dataset", "canonical_")} from dataset_aliases"""  # noqa: S608
PARENT_JOBS: Final = f"""select {_key("job")}, {_key("job", "parent_job_")} from jobs
where parent_job_namespace is not null and parent_job_name is not null
and (parent_job_namespace, parent_job_name) != (namespace, name)"""  # noqa: S608


# Canonical name of the dataset at the other end.
_CANONICAL = "coalesce(canonical_namespace, {end}_namespace), coalesce(canonical_name, {end}_name)"
_JOIN_ALIASES = (
    "left join dataset_aliases on dataset_aliases.namespace = {end}_namespace and dataset_aliases.name = {end}_name"
)


def _with_canonical_name(query: str, end: str) -> str:
    return query.format(canonical=_CANONICAL.format(end=end), join_aliases=_JOIN_ALIASES.format(end=end))


_DATASETS_OF_JOB = _with_canonical_name(
    """select direction = 'INPUT', {canonical}, first_event_at from job_edges {join_aliases}
where job_namespace = ?1 and job_name = ?2 order by last_event_at desc, 2, 3""",
    "dataset",
)
_JOBS_OF_DATASET = f"""{ALIASES_CTE} select direction = 'INPUT', job_namespace, job_name, first_event_at from names
join job_edges on dataset_namespace = names.namespace and dataset_name = names.name
order by last_event_at desc, 2, 3"""  # noqa: S608
_ASSERTED_SOURCES = _with_canonical_name(
    f"""{ALIASES_CTE} select distinct {{canonical}}, event_time from names
join lineage_assertions on dataset_namespace = names.namespace and dataset_name = names.name
join edge_sets using (edge_set_id) {{join_aliases}} where job_name is null""",  # noqa: S608
    "source",
)
_ASSERTED_TARGETS = _with_canonical_name(
    f"""{ALIASES_CTE} select distinct {{canonical}}, event_time from names
join edge_sets on source_namespace = names.namespace and source_name = names.name
join lineage_assertions using (edge_set_id) {{join_aliases}} where job_name is null""",  # noqa: S608
    "dataset",
)
_TARGETS = """select distinct dataset_namespace, dataset_name
from edge_sets join lineage_assertions using (edge_set_id) where source_namespace = ?1 and source_name = ?2"""


_SESSIONS = """select session_id, max(notebook) as notebook, min(started_at) as started_at, min(first_seq) as first_seq,
count(*) as cell_count, count(*) filter (where state = 'failed') as failed_cell_count
from cell_executions group by session_id order by min(started_at) desc, min(first_seq) desc limit ?"""
# The run of a notebook session; looked up by session to use the index on it.
_SESSION_RUN = """select run_uuid from runs join jobs on jobs.namespace = job_namespace and jobs.name = job_name
where session_id = {session} and job_type = 'NOTEBOOK' order by state_seq desc limit 1"""

# The same, with names before renames. PostgreSQL allows one self-reference, and takes the collation of the first query.
# From a name to its canonical name, and from that to all names: the steps are linear in the number of names.
_ALIASES_AND_RENAMES_CTE = """with recursive names (namespace, name) as (
    select namespace, name from dataset_aliases where false union select ?1, ?2
    union select coalesce(own.canonical_namespace, other.namespace, renames.namespace),
    coalesce(own.canonical_name, other.name, renames.name)
    from names join (select 0 as step union all select 1 union all select 2) steps on true
    left join dataset_aliases own on step = 0 and (own.namespace, own.name) = (names.namespace, names.name)
    left join dataset_aliases other
    on step = 1 and (other.canonical_namespace, other.canonical_name) = (names.namespace, names.name)
    left join renames on step = 2 and (to_namespace, to_name) = (names.namespace, names.name)
    where coalesce(own.canonical_name, other.name, renames.name) is not null)"""

_JOB_GRAPH_FINGERPRINT = """select
(select count(*) || ' ' || max(first_seq) || ' ' || total(first_event_at) from job_edges),
(select count(*) || ' ' || max(last_seq) from renames),
(select count(*) || ' ' || max(seq) from job_dependency_assertions),
(select count(*) || ' ' || max(last_seq) from symlinks), (select count(*) from jobs),
(select count(*) || ' ' || max(seq) from lineage_assertions where run_uuid is null)"""
_COLUMN_GRAPH_FINGERPRINT = """select
(select count(*) || ' ' || max(seq) from lineage_assertions), (select count(*) from edge_sets),
(select count(*) || ' ' || max(last_seq) from renames), (select count(*) || ' ' || max(last_seq) from symlinks)"""
# Late facets do not change positions, but the size of the blob.
ENTITY_FINGERPRINTS = f"""select 'dataset' as kind, namespace, name, last_seq * 10007 + coalesce((
    select sum(last_seq + length(body)) from facets where kind = 'dataset'
    and entity_key >= namespace || char(31) || name || char(31)
    and entity_key < namespace || char(31) || name || ' '), 0) + coalesce((
    select max(event_time) % 10007 from quality_assertions
    where dataset_namespace = namespace and dataset_name = name), 0) as fingerprint, last_event_at from {DATASETS}
union all select 'job', namespace, name, last_seq * 10007 + coalesce((
    select last_seq + length(body) from facets where kind = 'job' and entity_key = namespace || char(31) || name), 0),
last_event_at from jobs"""  # noqa: S608


def _edges_of(table: str) -> KeyedQuery:
    return KeyedQuery.by_id(
        f"""select edge_set_id, "column", source_namespace, source_name, source_column, type, subtype, description,
        masking from {table} where edge_set_id {{}} order by edge_set_id, edge_position"""  # noqa: S608
    )


_EDGES, _VISIBLE_EDGES, _HIDDEN_EDGES = (_edges_of(table) for table in ("edge_sets", VISIBLE_EDGES, HIDDEN_EDGES))


class IndexReader(PageQueries):
    """All queries of an index, which is open for reading only."""

    def rejected_count(self) -> int:
        """Return the number of events that were rejected and not ingested since."""
        row = self.query_one("select count(*) from rejected where event_id not in (select event_id from events)")
        return 0 if row is None else int(row[0])

    def sessions(self, limit: int) -> list[Row]:
        """Return notebook sessions, newest first, with state and end of their runs."""
        return self.query(
            f"""select cells.*, run.state, run.ended_at from ({_SESSIONS}) cells
            left join runs run on run.run_uuid = ({_SESSION_RUN.format(session="cells.session_id")})
            order by cells.started_at desc, cells.first_seq desc""",  # noqa: S608
            limit,
        )

    def session_run(self, session_id: str) -> Row | None:
        """Return the run of a session."""
        return self.query_one(f"select * from runs where run_uuid = ({_SESSION_RUN.format(session='?')})", session_id)  # noqa: S608

    def cells(self, session_id: str) -> list[Row]:
        """Return the cell executions of a session in order of execution."""
        return self.query(
            """select * from cell_executions_with_state where session_id = ?
            order by coalesce(started_at, ended_at) nulls first, first_seq""",
            session_id,
        )

    def operations(self, session_id: str) -> list[Row]:
        """Return the operations of a session with their runs."""
        return self.query(
            """select operations.*, runs.job_name, runs.state, runs.started_at
            from operations left join runs on runs.run_uuid = operations.run_uuid
            where operations.session_id = ? order by operations.event_time, operations.last_seq""",
            session_id,
        )

    def session_io(self, session_id: str) -> list[Row]:
        """Return the inputs and outputs of the operations of a session."""
        # Looked up by run: run_io has no index on session_id.
        own = "session_id = ?1 and run_uuid in (select run_uuid from runs where session_id = ?1)"
        return self.query(f"select * from run_io where {own} order by last_seq", session_id)  # noqa: S608

    def session_edges(self, session_id: str) -> list[Row]:
        """Return the column edges of a session."""
        return self.query("select * from column_edges where session_id = ? order by seq, edge_position", session_id)

    def all_names(self, namespace: str, name: str) -> list[tuple[str, str]]:
        """Return all names of a dataset, also those before renames."""
        return list(self.stream(f"{_ALIASES_AND_RENAMES_CTE} select namespace, name from names", namespace, name))  # noqa: S608

    def columns(self, namespace: str, name: str) -> list[str]:
        """Return the columns of a dataset that occur in lineage, as source or target."""
        # `cross join` fixes the join order: SQLite would read all assertions first.
        rows = self.query(
            f"""{_ALIASES_AND_RENAMES_CTE} select column_name as name, min(edge_position) as edge_position from (
                select "column" as column_name, edge_position from names
                cross join column_edges on dataset_namespace = names.namespace and dataset_name = names.name
                union all
                select source_column, edge_position from names
                join edge_sets on source_namespace = names.namespace and source_name = names.name
            ) columns where column_name is not null group by 1 order by 2, 1""",  # noqa: S608
            namespace,
            name,
        )
        return [row["name"] for row in rows]

    def last_version(self, namespace: str, name: str) -> str | None:
        """Return the version of a dataset that was written last."""
        row = self.query_one(
            f"""{ALIASES_CTE} select dataset_version from names
            join run_io on dataset_namespace = names.namespace and dataset_name = names.name
            where direction = 'OUTPUT' order by last_seq desc limit 1""",  # noqa: S608
            namespace,
            name,
        )
        return None if row is None else row["dataset_version"] or None

    def has_job(self, namespace: str, name: str) -> bool:
        """Return True if a job exists, be it as a placeholder."""
        return self.query_one("select 1 from all_jobs where namespace = ? and name = ?", namespace, name) is not None

    def has_dataset(self, namespace: str, name: str) -> bool:
        """Return True if a dataset exists, or is an alias of another."""
        query = """select 1 from datasets where namespace = ?1 and name = ?2
        union all select 1 from dataset_aliases where namespace = ?1 and name = ?2"""
        return self.query_one(query, namespace, name) is not None

    def recent_names(self, kind: str, limit: int = NO_LIMIT) -> list[Name]:
        """Return the names of jobs or datasets, most recent event first."""
        table = "jobs" if kind == "job" else DATASETS
        query = f"select namespace, name from {table} order by last_seq desc, namespace, name limit ?"  # noqa: S608
        return list(self.stream(query, limit))

    def input_version(self, run_uuid: str, namespace: str, name: str) -> str:
        """Return the version of a dataset that a run read; empty if unknown."""
        query = """select max(dataset_version) from run_io
        where run_uuid = ? and direction = 'INPUT' and dataset_namespace = ? and dataset_name = ?"""
        row = self.query_one(query, run_uuid, namespace, name)
        return "" if row is None else row[0] or ""

    def symlinks(self) -> list[Row]:
        """Return names that occur only in symlinks, with their canonical names."""
        return self.query(
            """select dataset_aliases.* from dataset_aliases left join datasets using (namespace, name)
            where datasets.name is null order by namespace, name"""
        )

    def all_job_edges(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Yield inputs and outputs of jobs: keys of job and dataset, is_input, is_implied and first event time."""
        return self.stream(JOB_EDGES)

    def all_renames(self) -> Iterator[tuple[str, str, int]]:
        """Yield renames: keys of the old and the new dataset, and the time."""
        return self.stream(RENAMES)

    def all_job_dependencies(self) -> Iterator[tuple[str, str, int]]:
        """Yield dependencies between jobs by explicit lineage: upstream key, downstream key and first event time."""
        return self.stream(JOB_DEPENDENCIES)

    def dataset_asserted_edges(self) -> Iterator[tuple[str, str, int]]:
        """Yield edges between datasets that have no job: source key, target key and event time."""
        return self.stream(DATASET_ASSERTED_EDGES)

    def job_graph_fingerprint(self) -> str:
        """Return a fingerprint of the edges between jobs and datasets."""
        parents = 0
        for job, parent in self.parent_jobs():
            parents ^= crc32(f"{job}{parent}".encode())
        return "/".join(map(str, (*next(self.stream(_JOB_GRAPH_FINGERPRINT)), parents)))

    def column_graph_fingerprint(self) -> str:
        """Return a fingerprint of the column edges."""
        return "/".join(map(str, next(self.stream(_COLUMN_GRAPH_FINGERPRINT))))

    def entity_fingerprints(self) -> Iterator[tuple[Any, str, str, int, int | None]]:
        """Yield kind and name of each dataset and job, a fingerprint of it and its facets, and its last event time."""
        return self.stream(ENTITY_FINGERPRINTS)

    def canonical_names(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of datasets with aliases and of their canonical datasets."""
        return self.stream(CANONICAL_NAMES)

    def parent_jobs(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of jobs and of their parent jobs."""
        return self.stream(PARENT_JOBS)

    def datasets_of_job(self, job: Name) -> Iterator[tuple[int, str, str, int]]:
        """Yield the inputs and outputs of a job: is_input, canonical name and first event time."""
        return self.stream(_DATASETS_OF_JOB, *job)

    def jobs_of_dataset(self, dataset: Name) -> Iterator[tuple[int, str, str, int]]:
        """Yield the jobs that read or write a dataset under any of its aliases: is_input, name and first event time."""
        return self.stream(_JOBS_OF_DATASET, *dataset)

    def asserted_datasets(self, dataset: Name, *, is_forward: bool) -> Iterator[tuple[str, str, int]]:
        """Yield the downstream or upstream datasets by lineage without a job, with the event time."""
        return self.stream(_ASSERTED_TARGETS if is_forward else _ASSERTED_SOURCES, *dataset)

    def targets_of(self, dataset: Name) -> Iterator[Name]:
        """Yield the datasets with column lineage from this name."""
        return self.stream(_TARGETS, *dataset)

    def edges_of_run(self, run_uuid: str, limit: int) -> list[Row]:
        """Return the column edges of a run."""
        return self.query(
            """select * from column_edges where asserted_by = ?
            order by dataset_namespace, dataset_name, "column" nulls first, source_namespace, source_name,
            source_column nulls first limit ?""",
            run_uuid,
            limit,
        )

    def usages_of(self, datasets: Iterable[Name], limit: int) -> tuple[set[str], set[Name]]:
        """Return the last runs that read or wrote one of the datasets, and the jobs that declare them."""
        runs, jobs = set[str](), set[Name]()
        for name in datasets:
            own = "where dataset_namespace = ? and dataset_name = ?"
            last = f"select run_uuid from run_io {own} order by last_seq desc limit ?"  # noqa: S608
            declared = f"select job_namespace, job_name from reported_job_edges {own} and declared_seq is not null"  # noqa: S608
            runs |= {run_uuid for (run_uuid,) in self.stream(last, *name, limit)}
            jobs |= set(self.stream(declared, *name))
        return runs, jobs

    def facets_changed_since(self, seq: int) -> list[tuple[Name, int, Facets]]:
        """Return datasets with facets changed after a position: name, position and facets."""
        rows = self.query(
            """select entity_key, last_seq, body from facets where kind = 'dataset' and last_seq > ?
            order by last_seq, entity_key""",
            seq,
        )
        changed = []
        for row in rows:
            namespace, name, *_ = split_key(row["entity_key"])
            changed.append(((namespace or "", name or ""), row["last_seq"], self.decode_facets(row["body"])))
        return changed

    def asserted_edges(self, edge_set_ids: Collection[str]) -> Iterator[AssertedEdge]:
        """Yield the edges of edge sets."""
        if self.mask is None:
            return map(AssertedEdge._make, self.stream(*_EDGES.bind(edge_set_ids)))
        # The view of both would read all edges to hidden datasets.
        hidden = [name.removeprefix(HIDDEN_EDGE_SET) for name in edge_set_ids if name.startswith(HIDDEN_EDGE_SET)]
        visible = [name for name in edge_set_ids if not name.startswith(HIDDEN_EDGE_SET)]
        return chain(
            map(AssertedEdge._make, self.stream(*_VISIBLE_EDGES.bind(visible))),
            (AssertedEdge(HIDDEN_EDGE_SET + name, *rest) for name, *rest in self.stream(*_HIDDEN_EDGES.bind(hidden))),
        )
