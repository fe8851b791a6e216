"""Reading the index: one method per thing that is asked of it."""

from __future__ import annotations

import sqlite3
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Self

from clew.index.bodies import DELETED, StoredFacet, Unpacker
from clew.index.keys import after, entity, parts
from clew.index.store import connect_reader, dictionaries_in

Row = sqlite3.Row

_SESSIONS = """select session_id, max(notebook) as notebook, min(started_at) as started_at, min(first_seq) as first_seq,
count(*) as cell_count, sum(state = 'failed') as failed_cell_count
from cell_executions group by session_id order by min(started_at) desc, min(first_seq) desc limit ?"""
_SESSION_RUNS = """select runs.*, row_number() over (partition by session_id order by state_seq desc) as place
from runs join jobs on jobs.namespace = job_namespace and jobs.name = job_name where job_type = 'NOTEBOOK'"""

# All names of the dataset that is called ?2 in ?1.
_NAMES = """with names (namespace, name) as (
    select ?1, ?2 union select other.namespace, other.name
    from nodes own join nodes other using (node_namespace, node_name) where own.namespace = ?1 and own.name = ?2)"""


class IndexReader:
    """A view of the index that never writes."""

    def __init__(self, path: Path) -> None:
        self._database = connect_reader(path)
        self._unpacker = self._make_unpacker()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()

    def _all(self, query: str, *values: object) -> list[Row]:
        return self._database.execute(query, values).fetchall()

    def _one(self, query: str, *values: object) -> Row | None:
        row: Row | None = self._database.execute(query, values).fetchone()
        return row

    def meta(self, key: str) -> str | None:
        """What the pipeline noted: `indexed_at`, `indexed_seq`, `last_batch`."""
        row = self._one("select value from meta where key = ?", key)
        return None if row is None else str(row["value"])

    def has_event(self, event_id: str) -> bool:
        """Whether an event was taken in; one that was only rejected was not."""
        return self._one("select 1 from events where event_id = ?", event_id) is not None

    def rejected_count(self) -> int:
        """How many events were rejected and have not been taken in since."""
        row = self._one("select count(*) from rejected where event_id not in (select event_id from events)")
        return 0 if row is None else int(row[0])

    def sessions(self, limit: int) -> list[Row]:
        """Notebook sessions, the newest first, each with the state and end of the run that stands for it."""
        return self._all(
            f"""select cells.*, run.state, run.ended_at from ({_SESSIONS}) cells
            left join ({_SESSION_RUNS}) run on run.session_id = cells.session_id and run.place = 1
            order by cells.started_at desc, cells.first_seq desc""",  # noqa: S608
            limit,
        )

    def session_run(self, session_id: str) -> Row | None:
        """The run that stands for the whole session."""
        return self._one(f"select * from ({_SESSION_RUNS}) where session_id = ? and place = 1", session_id)  # noqa: S608

    def cells(self, session_id: str) -> list[Row]:
        """A session's cell executions in the order in which they ran."""
        return self._all(
            "select * from cells where session_id = ? order by coalesce(started_at, ended_at), first_seq",
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
        return self._all("select * from run_io where session_id = ? order by last_seq", session_id)

    def session_edges(self, session_id: str) -> list[Row]:
        """All column edges that a session stated."""
        return self._all("select * from column_edges where session_id = ? order by seq, ordinal", session_id)

    def edges_to(self, namespace: str, name: str, version: str | None, column: str) -> list[Row]:
        """The edges into a column of a dataset, those for the whole dataset included; the newest statement first.

        A dataset is the same by whichever of its names. Who asks for no version asks for any; and what was said by
        another name need not name the version.
        """
        return self._all(
            f"""{_NAMES} select edges.* from names
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
            f"""{_NAMES} select column_name as name, min(place) as place from (
                select "column" as column_name, ordinal as place from names
                join column_edges on dataset_namespace = names.namespace and dataset_name = names.name
                union all
                select source_column, ordinal from names
                join edge_sets on source_namespace = names.namespace and source_name = names.name
            ) where column_name is not null group by 1 order by 2, 1""",  # noqa: S608
            namespace,
            name,
        )
        return [row["name"] for row in rows]

    def last_version(self, namespace: str, name: str) -> str | None:
        """The version of a dataset that was written last."""
        row = self._one(
            f"""{_NAMES} select dataset_version from names
            join run_io on dataset_namespace = names.namespace and dataset_name = names.name
            where direction = 'OUTPUT' order by last_seq desc limit 1""",  # noqa: S608
            namespace,
            name,
        )
        return None if row is None else row["dataset_version"] or None

    def datasets(self) -> list[Row]:
        """All datasets, the last touched first."""
        return self._all("select namespace, name from datasets order by last_seq desc, namespace, name")

    def symlinks(self) -> list[Row]:
        """Names of datasets that no event uses, only symlinks, with the names of their nodes."""
        return self._all(
            """select nodes.* from nodes left join datasets using (namespace, name) where datasets.name is null
            order by namespace, name"""
        )

    def dataset_facet(self, namespace: str, name: str, version: str | None, facet: str) -> bytes | None:
        """A facet of a dataset in one of its versions."""
        return self._facet("dataset", entity(namespace, name, version, None), facet)

    def run_dataset_facet(
        self, direction: str, namespace: str, name: str, version: str | None, run_uuid: str, facet: str
    ) -> bytes | None:
        """A facet that a run gave to its input or output."""
        return self._facet(direction.lower(), entity(namespace, name, version, run_uuid), facet)

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
