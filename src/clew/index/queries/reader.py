"""Index reader: connection, snapshot, sessions, column edges."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from types import TracebackType
from typing import Any, Final, NamedTuple, Self
from zlib import crc32

from clew.data_dir import IndexLocation
from clew.index.backends import open_backend
from clew.index.backends.base import Database, Row
from clew.index.backends.sqlite import BUSY_SECONDS, read_dictionaries
from clew.index.encoding import (
    DATASETS,
    DELETED,
    FacetDecoder,
    StoredFacet,
    dataset_key,
    entity_key,
    prefix_end,
    run_dataset_key,
    split_key,
)

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
PARENT_JOBS: Final = f"""select {_key("job", table="jobs.")}, {_key("job", "parent_job_", "runs.")}
from jobs join runs on runs.run_uuid = latest_run_uuid
where parent_job_namespace is not null and parent_job_name is not null
and (parent_job_namespace, parent_job_name) != (jobs.namespace, jobs.name)"""  # noqa: S608


EDGES_OF_SET = """select "column", source_namespace, source_name, source_column, type, subtype, description, masking
from edge_sets where edge_set_id = ? order by edge_position"""


class AssertedEdge(NamedTuple):
    """An edge of an edge set; the assertion has the target dataset."""

    column: str | None
    source_namespace: str
    source_name: str
    source_column: str | None
    type: str
    subtype: str | None
    description: str | None
    masking: int | None


_SESSIONS = """select session_id, max(notebook) as notebook, min(started_at) as started_at, min(first_seq) as first_seq,
count(*) as cell_count, count(*) filter (where state = 'failed') as failed_cell_count
from cell_executions group by session_id order by min(started_at) desc, min(first_seq) desc limit ?"""
# The run of a notebook session; looked up by session to use the index on it.
_SESSION_RUN = """select run_uuid from runs join jobs on jobs.namespace = job_namespace and jobs.name = job_name
where session_id = {session} and job_type = 'NOTEBOOK' order by state_seq desc limit 1"""

# All names of the dataset with namespace ?1 and name ?2.
ALIASES_CTE = """with names (namespace, name) as (
    select ?1, ?2 union select other.namespace, other.name
    from dataset_aliases own join dataset_aliases other using (canonical_namespace, canonical_name)
    where own.namespace = ?1 and own.name = ?2)"""
# The same, with names before renames. PostgreSQL allows one self-reference, and takes the collation of the first query.
_ALIASES_AND_RENAMES_CTE = """with recursive names (namespace, name) as (
    select namespace, name from dataset_aliases where false union select ?1, ?2
    union select coalesce(other.namespace, renames.namespace), coalesce(other.name, renames.name)
    from names join (select 0 as is_rename union all select 1) steps on true
    left join dataset_aliases own on is_rename = 0 and (own.namespace, own.name) = (names.namespace, names.name)
    left join dataset_aliases other
    on (other.canonical_namespace, other.canonical_name) = (own.canonical_namespace, own.canonical_name)
    left join renames on is_rename = 1 and (to_namespace, to_name) = (names.namespace, names.name)
    where coalesce(other.name, renames.name) is not null)"""

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
    and entity_key < namespace || char(31) || name || ' '), 0) as fingerprint, last_event_at from {DATASETS}
union all select 'job', namespace, name, last_seq * 10007 + coalesce((
    select last_seq + length(body) from facets where kind = 'job' and entity_key = namespace || char(31) || name), 0),
last_event_at from jobs"""  # noqa: S608
_VERSION = "select key, value from meta where key in ('identity', 'indexed_seq', 'indexed_at', 'last_batch')"


class IndexVersion(NamedTuple):
    """Identity of an index, and position, time and name of its last batch."""

    identity: str
    indexed_seq: int
    indexed_at: str
    last_batch: str


class Snapshot:
    """A read transaction. A class, because it is cheaper than a generator-based context manager."""

    __slots__ = ("_database",)

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("begin")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._database.in_transaction:
            self._database.execute("rollback")


class IndexReader:
    """Read-only access to an index."""

    def __init__(self, location: IndexLocation, busy_seconds: float = BUSY_SECONDS) -> None:
        self._database = open_backend(location).reader(busy_seconds)
        try:
            self._decoder = self._load_decoder()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def snapshot(self) -> Snapshot:
        """Return a context manager in which all queries see the same state."""
        return Snapshot(self._database)

    def query(self, query: str, *values: object) -> list[Row]:
        """Return the rows of a query."""
        return self._rows(query, *values)

    def query_one(self, query: str, *values: object) -> Row | None:
        """Return the first row of a query, if any."""
        return self._row(query, *values)

    def stream(self, query: str, *values: object) -> Iterator[Any]:
        """Yield the rows of a query as plain tuples, which are cheaper than named rows."""
        return self._database.execute_tuples(query, values)

    def _rows(self, query: str, *values: object) -> list[Row]:
        return self._database.execute(query, values).fetchall()

    def _row(self, query: str, *values: object) -> Row | None:
        row: Row | None = self._database.execute(query, values).fetchone()
        return row

    def _tuples(self, query: str, *values: object) -> Iterator[Any]:
        return self.stream(query, *values)

    def meta(self, key: str) -> str | None:
        """Return a value of the table `meta`, such as `indexed_at`, `indexed_seq` or `last_batch`."""
        row = self._row("select value from meta where key = ?", key)
        return None if row is None else str(row["value"])

    def version(self) -> IndexVersion:
        """Return the identity and the position of the index."""
        meta = {row["key"]: str(row["value"]) for row in self._rows(_VERSION)}
        return IndexVersion(
            meta.get("identity", ""),
            int(meta.get("indexed_seq", "0")),
            meta.get("indexed_at", ""),
            meta.get("last_batch", ""),
        )

    def has_event(self, event_id: str) -> bool:
        """Return True if an event was ingested; rejected events do not count."""
        return self._row("select 1 from events where event_id = ?", bytes.fromhex(event_id)) is not None

    def rejected_count(self) -> int:
        """Return the number of events that were rejected and not ingested since."""
        row = self._row("select count(*) from rejected where event_id not in (select event_id from events)")
        return 0 if row is None else int(row[0])

    def sessions(self, limit: int) -> list[Row]:
        """Return notebook sessions, newest first, with state and end of their runs."""
        return self._rows(
            f"""select cells.*, run.state, run.ended_at from ({_SESSIONS}) cells
            left join runs run on run.run_uuid = ({_SESSION_RUN.format(session="cells.session_id")})
            order by cells.started_at desc, cells.first_seq desc""",  # noqa: S608
            limit,
        )

    def session_run(self, session_id: str) -> Row | None:
        """Return the run of a session."""
        return self._row(f"select * from runs where run_uuid = ({_SESSION_RUN.format(session='?')})", session_id)  # noqa: S608

    def cells(self, session_id: str) -> list[Row]:
        """Return the cell executions of a session in order of execution."""
        return self._rows(
            """select * from cell_executions_with_state where session_id = ?
            order by coalesce(started_at, ended_at) nulls first, first_seq""",
            session_id,
        )

    def operations(self, session_id: str) -> list[Row]:
        """Return the operations of a session with their runs."""
        return self._rows(
            """select operations.*, runs.job_name, runs.state, runs.started_at
            from operations left join runs on runs.run_uuid = operations.run_uuid
            where operations.session_id = ? order by operations.event_time, operations.last_seq""",
            session_id,
        )

    def session_io(self, session_id: str) -> list[Row]:
        """Return the inputs and outputs of the operations of a session."""
        # Looked up by run: run_io has no index on session_id.
        own = "session_id = ?1 and run_uuid in (select run_uuid from runs where session_id = ?1)"
        return self._rows(f"select * from run_io where {own} order by last_seq", session_id)  # noqa: S608

    def session_edges(self, session_id: str) -> list[Row]:
        """Return the column edges of a session."""
        return self._rows("select * from column_edges where session_id = ? order by seq, edge_position", session_id)

    def all_names(self, namespace: str, name: str) -> list[tuple[str, str]]:
        """Return all names of a dataset, also those before renames."""
        return list(self._tuples(f"{_ALIASES_AND_RENAMES_CTE} select namespace, name from names", namespace, name))  # noqa: S608

    def columns(self, namespace: str, name: str) -> list[str]:
        """Return the columns of a dataset that occur in lineage, as source or target."""
        # `cross join` fixes the join order: SQLite would read all assertions first.
        rows = self._rows(
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
        row = self._row(
            f"""{ALIASES_CTE} select dataset_version from names
            join run_io on dataset_namespace = names.namespace and dataset_name = names.name
            where direction = 'OUTPUT' order by last_seq desc limit 1""",  # noqa: S608
            namespace,
            name,
        )
        return None if row is None else row["dataset_version"] or None

    def datasets(self) -> list[Row]:
        """Return all datasets, most recent event first."""
        return self._rows(f"select namespace, name from {DATASETS} order by last_seq desc, namespace, name")  # noqa: S608

    def has_job(self, namespace: str, name: str) -> bool:
        """Return True if a job exists, be it as a placeholder."""
        return self._row("select 1 from all_jobs where namespace = ? and name = ?", namespace, name) is not None

    def has_dataset(self, namespace: str, name: str) -> bool:
        """Return True if a dataset exists, or is an alias of another."""
        query = """select 1 from datasets where namespace = ?1 and name = ?2
        union all select 1 from dataset_aliases where namespace = ?1 and name = ?2"""
        return self._row(query, namespace, name) is not None

    def recent_jobs(self, limit: int) -> list[tuple[str, str]]:
        """Return the names of jobs, most recent event first."""
        return list(self._tuples("select namespace, name from jobs order by last_seq desc limit ?", limit))

    def recent_datasets(self, limit: int) -> list[tuple[str, str]]:
        """Return the names of datasets, most recent event first."""
        return list(self._tuples(f"select namespace, name from {DATASETS} order by last_seq desc limit ?", limit))  # noqa: S608

    def input_version(self, run_uuid: str, namespace: str, name: str) -> str:
        """Return the version of a dataset that a run read; empty if unknown."""
        query = """select max(dataset_version) from run_io
        where run_uuid = ? and direction = 'INPUT' and dataset_namespace = ? and dataset_name = ?"""
        row = self._row(query, run_uuid, namespace, name)
        return "" if row is None else row[0] or ""

    def symlinks(self) -> list[Row]:
        """Return names that occur only in symlinks, with their canonical names."""
        return self._rows(
            """select dataset_aliases.* from dataset_aliases left join datasets using (namespace, name)
            where datasets.name is null order by namespace, name"""
        )

    def all_job_edges(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Yield inputs and outputs of jobs: keys of job and dataset, is_input, is_implied and first event time."""
        return self._tuples(JOB_EDGES)

    def all_renames(self) -> Iterator[tuple[str, str, int]]:
        """Yield renames: keys of the old and the new dataset, and the time."""
        return self._tuples(RENAMES)

    def all_job_dependencies(self) -> Iterator[tuple[str, str, int]]:
        """Yield dependencies between jobs by explicit lineage: upstream key, downstream key and first event time."""
        return self._tuples(JOB_DEPENDENCIES)

    def dataset_asserted_edges(self) -> Iterator[tuple[str, str, int]]:
        """Yield edges between datasets that have no job: source key, target key and event time."""
        return self._tuples(DATASET_ASSERTED_EDGES)

    def asserted_edges(self, edge_set_id: str) -> Iterator[AssertedEdge]:
        """Yield the edges of an edge set."""
        return map(AssertedEdge._make, self._tuples(EDGES_OF_SET, edge_set_id))

    def job_graph_fingerprint(self) -> str:
        """Return a fingerprint of the edges between jobs and datasets."""
        parents = 0
        for job, parent in self.parent_jobs():
            parents ^= crc32(f"{job}{parent}".encode())
        return "/".join(map(str, (*next(self._tuples(_JOB_GRAPH_FINGERPRINT)), parents)))

    def column_graph_fingerprint(self) -> str:
        """Return a fingerprint of the column edges."""
        return "/".join(map(str, next(self._tuples(_COLUMN_GRAPH_FINGERPRINT))))

    def entity_fingerprints(self) -> Iterator[tuple[Any, str, str, int, int | None]]:
        """Yield kind and name of each dataset and job, a fingerprint of it and its facets, and its last event time."""
        return self._tuples(ENTITY_FINGERPRINTS)

    def canonical_names(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of datasets with aliases and of their canonical datasets."""
        return self._tuples(CANONICAL_NAMES)

    def parent_jobs(self) -> Iterator[tuple[str, str]]:
        """Yield the keys of jobs and of the parent jobs of their last runs."""
        return self._tuples(PARENT_JOBS)

    def dataset_facet(self, namespace: str, name: str, version: str | None, facet: str) -> bytes | None:
        """Return a facet of a dataset version."""
        return self._facet("dataset", dataset_key(namespace, name, version), facet)

    def run_dataset_facet(
        self, direction: str, namespace: str, name: str, version: str | None, run_uuid: str, facet: str
    ) -> bytes | None:
        """Return an input or output facet of a run."""
        return self._facet(direction.lower(), run_dataset_key(run_uuid, dataset_key(namespace, name, version)), facet)

    def run_dataset_facets(
        self, direction: str, namespace: str, name: str, version: str | None, run_uuid: str
    ) -> dict[str, bytes]:
        """Return all input or output facets of a run by name."""
        return self.facets(direction.lower(), run_dataset_key(run_uuid, dataset_key(namespace, name, version)))

    def facets(self, kind: str, *identity: str | None) -> dict[str, bytes]:
        """Return all facets of an entity by name."""
        facets = sorted(self._facets(kind, entity_key(*identity)), key=attrgetter("name"))
        return {facet.name: facet.body for facet in facets if facet.body != DELETED}

    def versions_with_facets(self, namespace: str, name: str) -> list[str | None]:
        """Return the versions of a dataset that have facets, most recent facets first."""
        begin = entity_key(namespace, name, "")
        rows = self._rows(
            """select entity_key from facets where kind = 'dataset' and entity_key >= ? and entity_key < ?
            order by last_seq desc""",
            begin,
            prefix_end(begin),
        )
        return [split_key(row["entity_key"])[2] for row in rows]

    def _facet(self, kind: str, key: str, name: str) -> bytes | None:
        bodies = (facet.body for facet in self._facets(kind, key) if facet.name == name)
        return next(bodies, DELETED) or None

    def _facets(self, kind: str, key: str) -> list[StoredFacet]:
        row = self._row("select body from facets where kind = ? and entity_key = ?", kind, key)
        return [] if row is None else self._decode_blob(row["body"])

    def _decode_blob(self, body: bytes) -> list[StoredFacet]:
        try:
            return self._decoder.decode(body)
        except KeyError:
            # The dictionary was added after this reader was opened.
            self._decoder = self._load_decoder()
            return self._decoder.decode(body)

    def _load_decoder(self) -> FacetDecoder:
        return FacetDecoder(read_dictionaries(self._database))
