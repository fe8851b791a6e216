"""Reading the index: one method per thing that is asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from types import TracebackType
from typing import Any, NamedTuple, Self
from zlib import crc32

from clew.home import Place
from clew.index import database, edges
from clew.index.bodies import DELETED, StoredFacet, Unpacker
from clew.index.keys import after, entity, parts
from clew.index.notes import DATASETS
from clew.index.places import store_of
from clew.index.said import ALL_LAST_STATEMENTS, EDGE_SET, Said, SaidEdge
from clew.index.store import BUSY_SECONDS, dictionaries_in

Row = database.Row

_SESSIONS = """select session_id, max(notebook) as notebook, min(started_at) as started_at, min(first_seq) as first_seq,
count(*) as cell_count, count(*) filter (where state = 'failed') as failed_cell_count
from cell_executions group by session_id order by min(started_at) desc, min(first_seq) desc limit ?"""
# The run that stands for a whole session; by its session, so that other runs are not looked at.
_SESSION_RUN = """select run_uuid from runs join jobs on jobs.namespace = job_namespace and jobs.name = job_name
where session_id = {session} and job_type = 'NOTEBOOK' order by state_seq desc limit 1"""

# All names of the dataset that is called ?2 in ?1.
NAMES = """with names (namespace, name) as (
    select ?1, ?2 union select other.namespace, other.name
    from nodes own join nodes other using (node_namespace, node_name) where own.namespace = ?1 and own.name = ?2)"""
# And those that it had before it was renamed.
_NAMES_EVER = """with recursive names (namespace, name) as (
    select ?1, ?2 union select other.namespace, other.name from names join nodes own using (namespace, name)
    join nodes other on (other.node_namespace, other.node_name) = (own.node_namespace, own.node_name)
    union select renames.namespace, renames.name from names
    join renames on (to_namespace, to_name) = (names.namespace, names.name))"""

_LINEAGE_CONTENT = """select (select count(*) || ' ' || max(first_seq) || ' ' || total(first_event_at) from job_edges),
(select count(*) || ' ' || max(last_seq) from renames), (select count(*) || ' ' || max(seq) from links),
(select count(*) || ' ' || max(last_seq) from symlinks), (select count(*) from jobs),
(select count(*) || ' ' || max(seq) from statements where run_uuid is null)"""
_COLUMN_CONTENT = """select (select count(*) || ' ' || max(seq) from statements), (select count(*) from edge_sets),
(select count(*) || ' ' || max(last_seq) from renames), (select count(*) || ' ' || max(last_seq) from symlinks)"""
# Facets that come late leave no trace in positions, but in the size of what is packed.
STAMPS = f"""select 'dataset' as kind, namespace, name, last_seq * 10007 + coalesce((
    select sum(last_seq + length(body)) from facets where kind = 'dataset'
    and entity >= namespace || char(31) || name || char(31) and entity < namespace || char(31) || name || ' '), 0)
    as stamp, last_event_at from {DATASETS}
union all select 'job', namespace, name, last_seq * 10007 + coalesce((
    select last_seq + length(body) from facets where kind = 'job' and entity = namespace || char(31) || name), 0),
last_event_at from jobs"""  # noqa: S608
_PROGRESS = "select key, value from meta where key in ('identity', 'indexed_seq', 'indexed_at', 'last_batch')"


class Progress(NamedTuple):
    """How far an index has come: the last position of the log, and when and with which batch that came."""

    identity: str
    seq: int
    at: str
    batch: str


class Snapshot:
    """A transaction that ends as it began. Every document is read in one: a generator would cost more."""

    __slots__ = ("_database",)

    def __init__(self, database: database.Database) -> None:
        self._database = database

    def __enter__(self) -> None:
        self._database.execute("begin")

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._database.in_transaction:
            self._database.execute("rollback")


class IndexReader:
    """A view of the index that never writes."""

    def __init__(self, place: Place, busy_seconds: float = BUSY_SECONDS) -> None:
        self._database = store_of(place).reader(busy_seconds)
        try:
            self._unpacker = self._make_unpacker()
        except BaseException:
            self._database.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def snapshot(self) -> Snapshot:
        """All that is asked within is answered from one state, whatever is written meanwhile."""
        return Snapshot(self._database)

    def ask(self, query: str, *values: object) -> list[Row]:
        """The rows that a query gives."""
        return self._all(query, *values)

    def ask_one(self, query: str, *values: object) -> Row | None:
        """The first row that a query gives, if it gives any."""
        return self._one(query, *values)

    def _all(self, query: str, *values: object) -> list[Row]:
        return self._database.execute(query, values).fetchall()

    def _one(self, query: str, *values: object) -> Row | None:
        row: Row | None = self._database.execute(query, values).fetchone()
        return row

    def _plain(self, query: str, *values: object) -> Iterator[Any]:
        """Rows as tuples: of a million, names would cost more than values."""
        return self._database.plain(query, values)

    def meta(self, key: str) -> str | None:
        """What the pipeline noted: `indexed_at`, `indexed_seq`, `last_batch`."""
        row = self._one("select value from meta where key = ?", key)
        return None if row is None else str(row["value"])

    def progress(self) -> Progress:
        """Which index this is, and how far it has come."""
        noted = {row["key"]: str(row["value"]) for row in self._all(_PROGRESS)}
        return Progress(
            noted.get("identity", ""),
            int(noted.get("indexed_seq", "0")),
            noted.get("indexed_at", ""),
            noted.get("last_batch", ""),
        )

    def has_event(self, event_id: str) -> bool:
        """Whether an event was taken in; one that was only rejected was not."""
        return self._one("select 1 from events where event_id = ?", bytes.fromhex(event_id)) is not None

    def rejected_count(self) -> int:
        """How many events were rejected and have not been taken in since."""
        row = self._one("select count(*) from rejected where event_id not in (select event_id from events)")
        return 0 if row is None else int(row[0])

    def sessions(self, limit: int) -> list[Row]:
        """Notebook sessions, the newest first, each with the state and end of the run that stands for it."""
        return self._all(
            f"""select cells.*, run.state, run.ended_at from ({_SESSIONS}) cells
            left join runs run on run.run_uuid = ({_SESSION_RUN.format(session="cells.session_id")})
            order by cells.started_at desc, cells.first_seq desc""",  # noqa: S608
            limit,
        )

    def session_run(self, session_id: str) -> Row | None:
        """The run that stands for the whole session."""
        return self._one(f"select * from runs where run_uuid = ({_SESSION_RUN.format(session='?')})", session_id)  # noqa: S608

    def cells(self, session_id: str) -> list[Row]:
        """A session's cell executions in the order in which they ran."""
        return self._all(
            "select * from cells where session_id = ? order by coalesce(started_at, ended_at) nulls first, first_seq",
            session_id,
        )

    def operations(self, session_id: str) -> list[Row]:
        """A session's operations, with their runs."""
        return self._all(
            """select operations.*, runs.job_name, runs.state, runs.started_at
            from operations left join runs on runs.run_uuid = operations.run_uuid
            where operations.session_id = ? order by operations.event_time, operations.last_seq""",
            session_id,
        )

    def session_io(self, session_id: str) -> list[Row]:
        """What the operations of a session read and wrote."""
        # By its runs: run_io is not indexed by session.
        own = "session_id = ?1 and run_uuid in (select run_uuid from runs where session_id = ?1)"
        return self._all(f"select * from run_io where {own} order by last_seq", session_id)  # noqa: S608

    def session_edges(self, session_id: str) -> list[Row]:
        """All column edges that a session stated."""
        return self._all("select * from column_edges where session_id = ? order by seq, ordinal", session_id)

    def edges_to(self, namespace: str, name: str, version: str | None, column: str) -> list[Row]:
        """The edges into a column of a dataset, those for the whole dataset included; the newest statement first.

        A dataset is the same by whichever of its names, those before it was renamed included. Who asks for no version
        asks for any; and what was said by another name need not name the version.
        """
        return self._all(
            f"""{_NAMES_EVER} select edges.* from names
            join column_edges edges on dataset_namespace = names.namespace and dataset_name = names.name
            where ("column" = ?4 or "column" is null) and (?3 in (dataset_version, '')
                or (dataset_version = '' and (names.namespace, names.name) != (?1, ?2)))
            order by event_time desc, seq desc, ordinal""",  # noqa: S608
            namespace,
            name,
            version or "",
            column,
        )

    def columns(self, namespace: str, name: str) -> list[str]:
        """Columns of a dataset that lineage tells of, be they made or used."""
        rows = self._all(
            f"""{_NAMES_EVER} select column_name as name, min(place) as place from (
                select "column" as column_name, ordinal as place from names
                join column_edges on dataset_namespace = names.namespace and dataset_name = names.name
                union all
                select source_column, ordinal from names
                join edge_sets on source_namespace = names.namespace and source_name = names.name
            ) told where column_name is not null group by 1 order by 2, 1""",  # noqa: S608
            namespace,
            name,
        )
        return [row["name"] for row in rows]

    def last_version(self, namespace: str, name: str) -> str | None:
        """The version of a dataset that was written last."""
        row = self._one(
            f"""{NAMES} select dataset_version from names
            join run_io on dataset_namespace = names.namespace and dataset_name = names.name
            where direction = 'OUTPUT' order by last_seq desc limit 1""",  # noqa: S608
            namespace,
            name,
        )
        return None if row is None else row["dataset_version"] or None

    def datasets(self) -> list[Row]:
        """All datasets, the last touched first."""
        return self._all(f"select namespace, name from {DATASETS} order by last_seq desc, namespace, name")  # noqa: S608

    def has_job(self, namespace: str, name: str) -> bool:
        """Whether anything is known of a job."""
        return self._one("select 1 from all_jobs where namespace = ? and name = ?", namespace, name) is not None

    def has_dataset(self, namespace: str, name: str) -> bool:
        """Whether anything is known of a dataset, be it only that another has this name, too."""
        query = """select 1 from datasets where namespace = ?1 and name = ?2
        union all select 1 from nodes where namespace = ?1 and name = ?2"""
        return self._one(query, namespace, name) is not None

    def some_jobs(self, count: int) -> list[tuple[str, str]]:
        """The names of jobs, the last touched first, but not more than so many."""
        return list(self._plain("select namespace, name from jobs order by last_seq desc limit ?", count))

    def some_datasets(self, count: int) -> list[tuple[str, str]]:
        """The names of datasets, the last touched first, but not more than so many."""
        return list(self._plain(f"select namespace, name from {DATASETS} order by last_seq desc limit ?", count))  # noqa: S608

    def input_version(self, run_uuid: str, namespace: str, name: str) -> str:
        """The version of a dataset that a run read; empty if it named none."""
        query = """select max(dataset_version) from run_io
        where run_uuid = ? and direction = 'INPUT' and dataset_namespace = ? and dataset_name = ?"""
        row = self._one(query, run_uuid, namespace, name)
        return "" if row is None else row[0] or ""

    def symlinks(self) -> list[Row]:
        """Names of datasets that no event uses, only symlinks, with the names of their nodes."""
        return self._all(
            """select nodes.* from nodes left join datasets using (namespace, name) where datasets.name is null
            order by namespace, name"""
        )

    def all_job_edges(self) -> Iterator[tuple[str, str, int, int, int]]:
        """Who reads and writes what: the keys of job and dataset, whether as input, whether implied, and since when."""
        return self._plain(edges.JOB_EDGES)

    def all_renames(self) -> Iterator[tuple[str, str, int]]:
        """The keys of datasets before and after they were renamed, and when."""
        return self._plain(edges.RENAMES)

    def all_job_links(self) -> Iterator[tuple[str, str, int]]:
        """The keys of jobs that feed jobs by explicit lineage, and since when."""
        return self._plain(edges.JOB_LINKS)

    def jobless_edges(self) -> Iterator[tuple[str, str, int]]:
        """The keys of datasets that feed datasets as these themselves say, without a job, and since when."""
        return self._plain(edges.JOBLESS)

    def last_statements(self, frames: str) -> Iterator[Said]:
        """What was said last of each dataset by each job; `frames` is the namespace of those in memory."""
        return map(Said._make, self._plain(ALL_LAST_STATEMENTS, frames))

    def edge_set(self, name: str) -> Iterator[SaidEdge]:
        """The edges of a set."""
        return map(SaidEdge._make, self._plain(EDGE_SET, name))

    def lineage_content(self) -> str:
        """A text that is another when jobs, datasets and edges between them are others."""
        parents = 0
        for job, parent in self.parent_jobs():
            parents ^= crc32(f"{job}{parent}".encode())
        return "/".join(map(str, (*next(self._plain(_LINEAGE_CONTENT)), parents)))

    def column_content(self) -> str:
        """A text that is another when something was said of columns since."""
        return "/".join(map(str, next(self._plain(_COLUMN_CONTENT))))

    def stamps(self) -> Iterator[tuple[Any, str, str, int, int | None]]:
        """Kind and name of each dataset and job, a number that is another when it or its facets are, and a time."""
        return self._plain(STAMPS)

    def node_names(self) -> Iterator[tuple[str, str]]:
        """The keys of names that symlinks make another's, and of the nodes that they are names of."""
        return self._plain(edges.NODE_NAMES)

    def parent_jobs(self) -> Iterator[tuple[str, str]]:
        """The keys of jobs and of those whose run their last run names as its parent."""
        return self._plain(edges.PARENT_JOBS)

    def dataset_facet(self, namespace: str, name: str, version: str | None, facet: str) -> bytes | None:
        """A facet of a dataset in one of its versions."""
        return self._facet("dataset", entity(namespace, name, version), facet)

    def run_dataset_facet(
        self, direction: str, namespace: str, name: str, version: str | None, run_uuid: str, facet: str
    ) -> bytes | None:
        """A facet that a run gave to its input or output."""
        return self._facet(direction.lower(), entity(run_uuid, namespace, name, version), facet)

    def facets(self, kind: str, *identity: str | None) -> dict[str, bytes]:
        """All facets of an entity, by name."""
        facets = sorted(self._facets(kind, entity(*identity)), key=attrgetter("name"))
        return {facet.name: facet.body for facet in facets if facet.body != DELETED}

    def described_versions(self, namespace: str, name: str) -> list[str | None]:
        """The versions of a dataset that have facets, the last described first."""
        begin = entity(namespace, name, "")
        rows = self._all(
            """select entity from facets where kind = 'dataset' and entity >= ? and entity < ?
            order by last_seq desc""",
            begin,
            after(begin),
        )
        return [parts(row["entity"])[2] for row in rows]

    def _facet(self, kind: str, key: str, name: str) -> bytes | None:
        bodies = (facet.body for facet in self._facets(kind, key) if facet.name == name)
        return next(bodies, DELETED) or None

    def _facets(self, kind: str, key: str) -> list[StoredFacet]:
        row = self._one("select body from facets where kind = ? and entity = ?", kind, key)
        return [] if row is None else self._unpack(row["body"])

    def _unpack(self, body: bytes) -> list[StoredFacet]:
        try:
            return self._unpacker.unpack(body)
        except KeyError:
            # Packed with a dictionary that is newer than this reader.
            self._unpacker = self._make_unpacker()
            return self._unpacker.unpack(body)

    def _make_unpacker(self) -> Unpacker:
        return Unpacker(dictionaries_in(self._database))
