"""Queries of runs, jobs, datasets and versions, each for one entity or for many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from operator import itemgetter
from typing import Final, NamedTuple, Self, TypeAlias

import msgspec
from msgspec import Raw

from clew.events.facets import FacetOrder
from clew.index.backends.base import Row
from clew.index.changes import RunIoRow
from clew.index.encoding import (
    DELETED,
    KEY_SEPARATOR,
    RUN_DATASET_KEY,
    FacetEncoder,
    StoredFacet,
    dataset_key,
    entity_key,
    merge_facets,
    prefix_end,
    run_dataset_key,
)
from clew.index.queries.connection import ALIASES_CTE, FacetKey, IndexConnection, PendingChanges
from clew.index.queries.records import DatasetRecord, DatasetWriteRecord, QualityRecord, RunIoRecord, RunRecord

Name: TypeAlias = tuple[str, str]
Facets: TypeAlias = dict[str, Raw]

# Names from a JSON list of pairs. SQLite does not reorder a `cross join`, so it looks up only the requested rows.
# `atom` is an item of a list of strings.
REQUESTED_NAMES: Final = "(select value ->> 0 as namespace, value ->> 1 as name from json_each(?1) named) wanted"


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


_RUN = ", ".join(f"runs.{name}" for name in RunRecord._fields if name not in {"is_placeholder", "body"})
_IS_REFERENCED_BY_NAME = "is_placeholder = 1 and job_namespace = ? and job_name = ?"
# Runs without placeholders.
_RUNS_WITHOUT_FACETS = f"select {_RUN}, 0, null from runs"  # noqa: S608
_RUNS_WITH_FACETS = f"select {_RUN}, 0, body from runs left join facets on kind = 'run' and entity_key = run_uuid"  # noqa: S608
_RUNS = KeyedQuery.by_id(_RUNS_WITH_FACETS + " where run_uuid {}")
# Runs that are only referenced by others.
_PLACEHOLDER_RUNS = KeyedQuery.by_id(
    f"select {_RUN}, 1, null from all_runs runs where is_placeholder = 1 and run_uuid {{}}"  # noqa: S608
)
_IO_FACETS = f"""(select body from facets where kind = case direction when 'INPUT' then 'input' else 'output' end
    and entity_key = {RUN_DATASET_KEY})"""  # noqa: S608


def _run_io(*, with_facets: bool, with_counts: bool) -> KeyedQuery:
    counts = "row_count, is_implied, schema_id" if with_counts else "null, 0, null"
    return KeyedQuery.by_id(
        f"""select run_uuid, direction, dataset_namespace, dataset_name, dataset_version, {counts},
        {_IO_FACETS if with_facets else "null"} from run_io where run_uuid {{}}
        order by run_uuid, direction, dataset_namespace, dataset_name, dataset_version"""  # noqa: S608
    )


# Without the counts, the primary key has all columns.
_RUN_IO = {
    (with_facets, with_counts): _run_io(with_facets=with_facets, with_counts=with_counts)
    for with_facets in (False, True)
    for with_counts in (False, True)
}
_DATASET = ", ".join(
    f"renames.{name}" if name.startswith("to_") else f"dataset_states.{name}" for name in DatasetRecord._fields
)
_DATASETS = KeyedQuery.by_name(
    f"""select {_DATASET} from {{}} cross join dataset_states using (namespace, name)
    left join renames using (namespace, name)"""  # noqa: S608
)
# Facets without a version, and those of the version that had facets last: the first events of a run often lack the
# version. The key is selected first, so that blobs are not sorted.
_LATEST_FACETS = """kind = 'dataset' and entity_key in ({0}, (
    select entity_key from facets where kind = 'dataset' and entity_key > {0} and entity_key < {1}
    order by last_seq desc, entity_key desc limit 1))"""
_DATASET_FACETS = KeyedQuery(
    f"select ?1, entity_key, last_seq, body from facets where {_LATEST_FACETS.format('?1', '?2')}",  # noqa: S608
    f"""select value ->> 0, entity_key, last_seq, body from json_each(?) wanted
    cross join facets on {_LATEST_FACETS.format("value ->> 0", "value ->> 1")}""",  # noqa: S608
)
_WRITES = KeyedQuery.by_name(
    """select dataset_namespace, dataset_name, version, run_uuid, created_at, schema_id, lifecycle_state, row_count
    from (
    select written.dataset_namespace, written.dataset_name, written.dataset_version as version, written.run_uuid,
        runs.ended_at as created_at, written.schema_id, null as lifecycle_state, written.row_count,
        runs.state_seq as seq
    from {0} cross join run_io written on written.dataset_namespace = wanted.namespace
        and written.dataset_name = wanted.name and written.direction = 'OUTPUT'
    join runs on runs.run_uuid = written.run_uuid and runs.state = 'COMPLETED'
    union all
    select dataset_namespace, dataset_name, coalesce(version, ''), null, created_at, nullif(schema_id, ''),
        nullif(lifecycle_state, ''), null, last_seq
    from {0} cross join dataset_declarations on dataset_namespace = wanted.namespace and dataset_name = wanted.name
    ) writes order by created_at, seq"""
)
_QUALITY = ", ".join(QualityRecord._fields)
# The results of a run count before those of the dataset in the same event.
_QUALITY_ORDER = "coalesce(order_time, 0) {0}, seq {0}, facet_type {0}"
_RUN_QUALITY = KeyedQuery.by_id(
    f"select {_QUALITY} from quality_assertions where asserted_by {{}} order by {_QUALITY_ORDER.format('')}"  # noqa: S608
)
_DATASET_QUALITY = f"""select {_QUALITY} from {REQUESTED_NAMES} cross join quality_assertions
on dataset_namespace = wanted.namespace and dataset_name = wanted.name
order by event_time desc, {_QUALITY_ORDER.format("desc")} limit ?2"""  # noqa: S608
# Input and output facets of the last runs of the jobs that read or wrote a dataset last.
_MAX_USERS = 5
_USERS = """(select wanted.namespace, wanted.name, lower(direction) as io_kind, last_run_uuid, row_number() over (
        partition by wanted.namespace, wanted.name, direction order by last_event_at desc, last_run_uuid) as recency
    from {} cross join job_edges
    on dataset_namespace = wanted.namespace and dataset_name = wanted.name) users"""
_LAST_USERS = KeyedQuery.by_name(
    f"""select io_kind, namespace, name, last_run_uuid from {_USERS}
    where recency <= {_MAX_USERS} and last_run_uuid is not null"""  # noqa: S608
)
_LAST_IO_FACETS = KeyedQuery.by_name(
    f"""select io_kind, namespace, name, body from {_USERS} cross join facets on kind = io_kind
    and entity_key >= last_run_uuid || char(31) || namespace || char(31) || name || char(31)
    and entity_key < last_run_uuid || char(31) || namespace || char(31) || name || ' '
    where recency <= {_MAX_USERS}"""  # noqa: S608
)
_JOBS_FROM = """select {0}.*{1}, source_code_location from {2}
cross join {0} using (namespace, name) left join runs on run_uuid = latest_run_uuid"""
_JOBS = _JOBS_FROM.format("jobs", ", 0 as is_placeholder", REQUESTED_NAMES)
_PLACEHOLDER_JOBS = f"{_JOBS_FROM.format('all_jobs', '', REQUESTED_NAMES)} where is_placeholder = 1"
_JOB_VERSIONS = f"""select wanted.namespace as job_namespace, wanted.name as job_name, job_version as version,
    ended_at as observed_at, state_seq as seq, run_uuid, source_code_location, null as inputs, null as outputs
from {REQUESTED_NAMES} cross join runs
on job_namespace = wanted.namespace and job_name = wanted.name and job_version is not null
union all
select job_namespace, job_name, version, declared_at, declared_seq, null, source_code_location, inputs, outputs
from {REQUESTED_NAMES} cross join job_declarations on job_namespace = wanted.namespace and job_name = wanted.name
order by observed_at, seq"""  # noqa: S608
_ALIASES = "select namespace, name, canonical_namespace, canonical_name from dataset_aliases"
_CANONICAL_NAME = "select canonical_namespace, canonical_name from dataset_aliases where namespace = ? and name = ?"
# Inputs and outputs of the dataset with the `names`, and their runs.
_IO_OF_NAMES = """join run_io on dataset_namespace = names.namespace and dataset_name = names.name
    join runs using (run_uuid)"""
_HAS_NOT_FAILED = "state not in ('FAILED', 'ABORTED')"
# Start and end of a run, also if it has no START or terminal event.
_STARTED_AT = "coalesce(runs.started_at, runs.first_event_at)"
_ENDED_AT = "coalesce(runs.ended_at, runs.last_event_at)"
# Runs of notebook cells and operations are left out.
IS_TOP_LEVEL: Final = """(session_id is null or exists (
    select 1 from jobs where namespace = job_namespace and name = job_name and job_type = 'NOTEBOOK'))"""
NO_LIMIT: Final = 2**31 - 1


class EntityQueries(IndexConnection):
    """Queries of entities: a page needs a handful of queries, whatever its length."""

    def data_version(self) -> object:
        """Return a value that changes with every commit to the index."""
        return self._database.data_version()

    def runs_of(self, run_uuids: Collection[str]) -> dict[str, RunRecord]:
        """Return runs by id, including placeholders."""
        runs = {row[0]: RunRecord._make(row) for row in self.stream(*_RUNS.bind(run_uuids))}
        missing = [run_uuid for run_uuid in run_uuids if run_uuid not in runs] if len(runs) < len(run_uuids) else ()
        if missing:
            runs |= {row[0]: RunRecord._make(row) for row in self.stream(*_PLACEHOLDER_RUNS.bind(missing))}
        return runs if self.pending is None else {run.run_uuid: run for run in self._with_pending_facets(runs.values())}

    def run(self, run_uuid: str) -> RunRecord | None:
        """Return a run or its placeholder."""
        return self.runs_of((run_uuid,)).get(run_uuid)

    def runs_of_job(
        self,
        job: Name,
        limit: int,
        offset: int = 0,
        *,
        before: tuple[int | None, int, str] | None = None,
        with_facets: bool = False,
    ) -> list[RunRecord]:
        """Return runs of a job, newest first, those without a START event last.

        `before` is the start, the first event and the id of the last run of the previous page.
        """
        condition, values = "", tuple[object, ...]()
        if before is not None:
            has_start = before[0] is not None
            is_earlier = "(started_at, first_event_at, run_uuid) < (?, ?, ?) or started_at is null"
            condition = (
                f"and ({is_earlier if has_start else 'started_at is null and (first_event_at, run_uuid) < (?, ?)'})"
            )
            values = before if has_start else before[1:]
        return self.run_records(
            f"""where job_namespace = ? and job_name = ? {condition}
            order by started_at desc, first_event_at desc, run_uuid desc limit ? offset ?""",
            *job,
            *values,
            limit,
            offset,
            with_facets=with_facets,
        )

    def run_records(self, condition: str, *values: object, with_facets: bool = False) -> list[RunRecord]:
        """Return runs, without placeholders, by a condition on the table `runs`, with order and limit."""
        query = _RUNS_WITH_FACETS if with_facets else _RUNS_WITHOUT_FACETS
        records = list(map(RunRecord._make, self.stream(f"{query} {condition}", *values)))
        return self._with_pending_facets(records) if with_facets else records

    def _with_pending_facets(self, runs: Collection[RunRecord]) -> list[RunRecord]:
        changes = self.pending_changes([("run", run.run_uuid) for run in runs])
        if changes is None:
            return list(runs)
        return [run._replace(body=self._merge_pending_blob(run.body, ("run", run.run_uuid), changes)) for run in runs]

    def _merge_pending_blob(self, body: bytes | None, entity: FacetKey, changes: PendingChanges) -> bytes | None:
        if entity not in changes.facets:
            return body
        return FacetEncoder().encode(
            self._merge_pending([] if body is None else self._decode_blob(body), entity, changes)
        )

    def referenced_runs_of_job(self, job: Name, limit: int, offset: int = 0) -> list[RunRecord]:
        """Return runs of a job that have no events but are parent or root of others, newest first."""
        records = self.stream(
            f"""select {_RUN}, 1, null from all_runs runs
            where {_IS_REFERENCED_BY_NAME} order by first_event_at desc, run_uuid desc limit ? offset ?""",  # noqa: S608
            *job,
            limit,
            offset,
        )
        return list(map(RunRecord._make, records))

    def count_referenced_runs(self, job: Name) -> int:
        """Count the runs of a job that have no events but are parent or root of others."""
        return self.count(f"select count(*) from all_runs where {_IS_REFERENCED_BY_NAME}", *job)  # noqa: S608

    def count_runs(self, job: Name) -> int:
        """Count the runs of a job."""
        return self.count("select count(*) from runs where job_namespace = ? and job_name = ?", *job)

    def io_of(
        self, run_uuids: Collection[str], *, with_facets: bool = False, with_counts: bool = False
    ) -> dict[str, list[RunIoRecord]]:
        """Return the inputs and outputs of runs by run; blobs, row counts and schemas only if requested.

        A dataset that a run reported first without and then with a version is one input or output.
        """
        by_run: defaultdict[str, list[RunIoRecord]] = defaultdict(list)
        for row in self.stream(*_RUN_IO[with_facets, with_counts].bind(run_uuids)):
            by_run[row[0]].append(RunIoRecord._make((*row[:8], () if row[8] is None else (row[8],))))
        is_complete = self.pending is None or not (with_facets or with_counts)
        changes = None if is_complete else self.pending_changes([("run", run_uuid) for run_uuid in run_uuids])
        if changes is not None:
            for run_uuid in run_uuids:
                by_run[run_uuid] = self._with_pending_io(run_uuid, by_run[run_uuid], changes)
        for run_uuid, records in by_run.items():
            by_run[run_uuid] = _merge_versions(records)
        return by_run

    def _with_pending_io(self, run_uuid: str, io: list[RunIoRecord], changes: PendingChanges) -> list[RunIoRecord]:
        """Add versions, row counts, schemas and facets that await a backfill."""
        records = {record[:5]: record for record in io}
        for row in changes.run_io:
            if row.run_uuid == run_uuid:
                key = run_uuid, row.direction, row.dataset_namespace, row.dataset_name, row.dataset_version
                stored = records.get(key) or RunIoRecord(*key, None, int(row.is_implied), None, ())
                entity = row.direction.lower(), run_dataset_key(run_uuid, dataset_key(*key[2:]))
                body = self._merge_pending_blob(stored.bodies[0] if stored.bodies else None, entity, changes)
                records[key] = stored._replace(
                    row_count=row.row_count if stored.row_count is None else stored.row_count,
                    schema_id=stored.schema_id or row.schema_id,
                    bodies=() if body is None else (body,),
                )
        return [records[key] for key in sorted(records)]

    def writer_of(self, read: RunIoRecord, reader: RunRecord) -> RunRecord | None:
        """Return the run that wrote an input: the same version, or else the last write before the reader started."""
        writers = self.stream(
            f"""{ALIASES_CTE} select {_RUN}, 0, null from names {_IO_OF_NAMES}
            where direction = 'OUTPUT' and run_uuid != ?3 and (?4 = '' or dataset_version in (?4, ''))
            and {_HAS_NOT_FAILED} and {_ENDED_AT} <= ?5
            order by dataset_version = ?4 desc, {_ENDED_AT} desc, state_seq desc limit 1""",  # noqa: S608
            *read.dataset,
            reader.run_uuid,
            read.version,
            reader.start_time,
        )
        return next(map(RunRecord._make, writers), None)

    def readers_of(self, written: RunIoRecord, writer: RunRecord, limit: int) -> list[RunRecord]:
        """Return the runs that read an output before another run overwrote it."""
        ((next_write,),) = self.stream(
            f"""{ALIASES_CTE} select min({_ENDED_AT}) from names {_IO_OF_NAMES}
            where direction = 'OUTPUT' and run_uuid != ?3 and {_HAS_NOT_FAILED}
            and ({_ENDED_AT}, state_seq) > (?4, (select state_seq from all_runs where run_uuid = ?3))""",  # noqa: S608
            *written.dataset,
            writer.run_uuid,
            writer.end_time,
        )
        readers = self.stream(
            f"""{ALIASES_CTE} select {_RUN}, 0, null from (
                select distinct runs.* from names {_IO_OF_NAMES}
                where direction = 'INPUT' and run_uuid != ?3 and (?6 = '' or dataset_version in (?6, ''))
                and {_STARTED_AT} >= ?4 and ({_STARTED_AT} < ?5 or ?5 is null)
            ) runs order by {_STARTED_AT}, run_uuid limit ?7""",  # noqa: S608
            *written.dataset,
            writer.run_uuid,
            writer.end_time,
            next_write,
            written.version,
            limit,
        )
        return list(map(RunRecord._make, readers))

    def top_level_runs(self, since: int, limit: int, *, is_failed: bool = False) -> list[RunRecord]:
        """Return runs with events since a time, newest first, without those of notebook cells and operations."""
        state = "and state in ('FAILED', 'ABORTED')" if is_failed else ""
        return self.run_records(
            f"where {IS_TOP_LEVEL} and first_event_at >= ? {state} order by first_event_at desc limit ?", since, limit
        )

    def slow_runs(self, since: int, sample_size: int, limit: int) -> list[RunRecord]:
        """Return the slowest of the `sample_size` newest runs with events since a time."""
        return self.run_records(
            f"""where run_uuid in (select run_uuid from (
                select run_uuid from runs where {IS_TOP_LEVEL} and first_event_at >= ?
                order by first_event_at desc limit ?) newest)
            and ended_at is not null and started_at is not null order by ended_at - started_at desc limit ?""",  # noqa: S608
            since,
            sample_size,
            limit,
        )

    def io_of_dataset(self, dataset: Name, limit: int) -> list[Row]:
        """Return the last reads and writes of a dataset under all its aliases, newest first.

        A read or write that a run reported first without and then with a version is one.
        """
        return self.query(
            f"""{ALIASES_CTE} select run_io.*, runs.first_event_at, runs.state, fields from names {_IO_OF_NAMES}
            left join schemas using (schema_id)
            where not (dataset_version = '' and exists (
                select 1 from run_io versioned where versioned.run_uuid = run_io.run_uuid
                and versioned.direction = run_io.direction
                and versioned.dataset_namespace = run_io.dataset_namespace
                and versioned.dataset_name = run_io.dataset_name and versioned.dataset_version > ''))
            order by first_event_at desc, run_io.last_seq desc limit ?3""",  # noqa: S608
            *dataset,
            limit,
        )

    def jobs_of(self, names: Collection[Name]) -> dict[Name, Row]:
        """Return jobs by name with values of their last runs, including placeholders."""
        jobs = {(row["namespace"], row["name"]): row for row in self.query(_JOBS, to_json_array(names))}
        missing = [name for name in names if name not in jobs]
        if missing:
            rows = self.query(_PLACEHOLDER_JOBS, to_json_array(missing))
            jobs |= {(row["namespace"], row["name"]): row for row in rows}
        return jobs

    def job_versions_of(self, names: Collection[Name]) -> list[Row]:
        """Return the job versions of runs and JobEvents, oldest first."""
        return self.query(_JOB_VERSIONS, to_json_array(names))

    def datasets_used_by(self, job: Name, direction: str, limit: int = NO_LIMIT, *, by_name: bool = False) -> list[Row]:
        """Return the inputs or outputs of a job, most recent first or by name."""
        return self._job_edges("job_edges.job_namespace = ? and job_edges.job_name = ?", job, direction, limit, by_name)

    def jobs_using(self, dataset: Name, direction: str, limit: int = NO_LIMIT, *, by_name: bool = False) -> list[Row]:
        """Return the jobs that read or write a dataset under this name, most recent first or by name."""
        return self._job_edges("dataset_namespace = ? and dataset_name = ?", dataset, direction, limit, by_name)

    def _job_edges(self, condition: str, name: Name, direction: str, limit: int, by_name: bool) -> list[Row]:  # noqa: FBT001
        order = "1, 2, 4, 5" if by_name else "job_edges.last_event_at desc, 1, 2, 4, 5"
        return self.query(
            f"""select job_edges.*, runs.state from job_edges left join runs on runs.run_uuid = last_run_uuid
            where {condition} and direction = ? order by {order} limit ?""",  # noqa: S608
            *name,
            direction,
            limit,
        )

    def datasets_of(self, names: Collection[Name]) -> dict[Name, DatasetRecord]:
        """Return datasets by name."""
        return {row[:2]: DatasetRecord._make(row) for row in self.stream(*_DATASETS.bind(names))}

    def aliases_by_dataset(self) -> dict[Name, tuple[Name, ...]]:
        """Map each name of a dataset with aliases to all its names, the canonical one first."""
        return _group_aliases(self.stream(f"{_ALIASES} order by namespace, name"))

    def aliases_of(self, dataset: Name) -> tuple[Name, ...]:
        """Return all names of a dataset, the canonical one first."""
        rows = self.stream(
            f"{_ALIASES} where (canonical_namespace, canonical_name) = ({_CANONICAL_NAME}) order by namespace, name",
            *dataset,
        )
        return _group_aliases(rows).get(dataset, (dataset,))

    def find_canonical_name(self, dataset: Name) -> Name | None:
        """Return the canonical name of a dataset with aliases; None if it has none."""
        return next(self.stream(_CANONICAL_NAME, *dataset), None)

    def writes_of(self, names: Collection[Name]) -> Iterator[DatasetWriteRecord]:
        """Return dataset versions of completed runs and DatasetEvents, oldest first."""
        writes = self.stream(*_WRITES.bind(names))
        changes = self.pending_changes([("dataset", entity_key(*name, "")) for name in names])
        return writes if changes is None else iter(_with_pending_writes(writes, set(names), changes))

    def schemas_of(self, schema_ids: Iterable[str]) -> dict[str, str]:
        """Return schemas as JSON, by id."""
        query = "select schema_id, fields from json_each(?) wanted cross join schemas on schema_id = atom"
        wanted = list(schema_ids)
        schemas = {row["schema_id"]: row["fields"] for row in self.query(query, to_json_array(wanted))}
        if self.pending is not None and len(schemas) < len(wanted):
            found = {schema_id: self.pending.find_schema(schema_id) for schema_id in wanted if schema_id not in schemas}
            schemas |= {schema_id: fields for schema_id, fields in found.items() if fields is not None}
        return schemas

    def decode_facets(self, *bodies: bytes | None) -> Facets:
        """Decode the facets of blobs, without deleted ones; of several with the same name, the last received counts."""
        blobs = [self._decode_blob(body) for body in bodies if body is not None]
        return _live_facets(blobs[0] if len(blobs) == 1 else _merge_blobs(blobs))

    def facets_of(self, entities: Collection[tuple[str, str]]) -> dict[tuple[str, str], Facets]:
        """Return the facets of entities by kind and key, without deleted ones."""
        return {entity: _live_facets(facets) for entity, facets in self._stored_facets_of(entities).items()}

    def _stored_facets_of(self, entities: Collection[FacetKey]) -> dict[FacetKey, list[StoredFacet]]:
        query = """select kind, entity_key, body from json_each(?) wanted
            cross join facets on kind = value ->> 0 and entity_key = value ->> 1"""
        rows = self.query(query, to_json_array(entities)) if entities else []
        stored = {(row["kind"], row["entity_key"]): self._decode_blob(row["body"]) for row in rows}
        changes = self.pending_changes(entities)
        if changes is not None:
            for entity in entities:
                if entity in changes.facets:
                    stored[entity] = self._merge_pending(stored.get(entity, []), entity, changes)
        return stored

    def dataset_facets_of(self, names: Iterable[Name]) -> dict[Name, tuple[str | None, Facets]]:
        """Return the version of each dataset that had facets last, and its facets with those without a version."""
        by_prefix = {entity_key(*name, ""): name for name in names}
        keys: defaultdict[str, dict[str, int]] = defaultdict(dict)
        bodies: dict[FacetKey, bytes] = {}
        for prefix, key, last_seq, body in self.stream(
            *_DATASET_FACETS.bind([(prefix, prefix_end(prefix)) for prefix in by_prefix])
        ):
            keys[prefix][key] = last_seq
            bodies["dataset", key] = body
        pending = self.pending_facets([("dataset", prefix) for prefix in by_prefix])
        for (kind, key), row in pending.items():
            prefix = key[: key.rfind(KEY_SEPARATOR) + 1]
            if kind == "dataset" and prefix in by_prefix:
                keys[prefix][key] = max(row.last_seq, keys[prefix].get(key, -1))
        shown: dict[str, list[str]] = {}
        latest: dict[str, str] = {}
        for prefix, own in keys.items():
            by_seq = [key for _, key in sorted((seq, key) for key, seq in own.items())]
            # Facets without a version have the prefix as their key.
            versioned = [key for key in by_seq if key != prefix]
            shown[prefix] = [*({prefix} & own.keys()), *versioned[-1:]]
            latest[prefix] = by_seq[-1]
        entities = [("dataset", key) for own in shown.values() for key in own]
        stored = (
            self._stored_facets_of(entities)
            if pending
            else {item: self._decode_blob(bodies[item]) for item in entities}
        )
        return {
            by_prefix[prefix]: (
                latest[prefix][len(prefix) :] or None,
                _live_facets(_merge_blobs(stored["dataset", key] for key in own)),
            )
            for prefix, own in shown.items()
        }

    def io_facets_of(self, names: Collection[Name]) -> dict[tuple[str, str, str], list[StoredFacet]]:
        """Return the last input and output facets of datasets, by `input` or `output`, namespace and name.

        They are those of the last runs of the jobs that read or wrote a dataset last.
        """
        facets: dict[tuple[str, str, str], list[StoredFacet]] = {}

        def add(key: tuple[str, str, str], body: bytes) -> None:
            facets[key] = merge_facets(facets.get(key, ()), self._decode_blob(body), FacetOrder.EVENT_TIME)

        for *use, body in self.stream(*_LAST_IO_FACETS.bind(names)):
            add(tuple(use), body)
        pending = self.pending_facets([("dataset", entity_key(*name, "")) for name in names])
        if pending:
            for io_kind, namespace, name, run_uuid in self.stream(*_LAST_USERS.bind(names)):
                prefix = run_dataset_key(run_uuid, entity_key(namespace, name, ""))
                for (kind, key), row in pending.items():
                    if kind == io_kind and key.startswith(prefix):
                        add((kind, namespace, name), row.body)
        return facets

    def quality_of_runs(self, run_uuids: Collection[str]) -> Iterator[QualityRecord]:
        """Yield the test results of runs, the deciding ones last."""
        return map(QualityRecord._make, self.stream(*_RUN_QUALITY.bind(run_uuids)))

    def quality_of_dataset(self, names: Collection[Name], limit: int) -> list[QualityRecord]:
        """Return the last test results of a dataset with all its names, newest first."""
        return list(map(QualityRecord._make, self.stream(_DATASET_QUALITY, to_json_array(names), limit)))

    def stored_facets(self, kind: str, *identity: str | None) -> list[StoredFacet]:
        """Return the facets of an entity with the positions of their events, including deleted ones."""
        return self._facets(kind, entity_key(*identity))


def _merge_blobs(blobs: Iterable[Iterable[StoredFacet]]) -> Iterable[StoredFacet]:
    return reduce(lambda merged, blob: merge_facets(merged, blob, FacetOrder.RECEIVED), blobs, ())


def _merge_versions(io: Iterable[RunIoRecord]) -> list[RunIoRecord]:
    """Merge a dataset that a run reported without and with a version; the record without one comes first."""
    merged: list[RunIoRecord] = []
    for record in io:
        is_same = merged and merged[-1][1:5] == (*record[1:4], "")
        merged.append(_merge_io(merged.pop(), record) if is_same else record)
    return merged


def _merge_io(unversioned: RunIoRecord, versioned: RunIoRecord) -> RunIoRecord:
    return versioned._replace(
        row_count=unversioned.row_count if versioned.row_count is None else versioned.row_count,
        is_implied=min(unversioned.is_implied, versioned.is_implied),
        schema_id=versioned.schema_id or unversioned.schema_id,
        bodies=unversioned.bodies + versioned.bodies,
    )


def _live_facets(facets: Iterable[StoredFacet]) -> Facets:
    return {facet.name: Raw(facet.body) for facet in facets if facet.body != DELETED}


def _with_pending_writes(
    writes: Iterable[DatasetWriteRecord], names: Collection[Name], changes: PendingChanges
) -> list[DatasetWriteRecord]:
    """Add versions, schemas and row counts of writes, and declared versions, that await a backfill."""
    pending: defaultdict[tuple[str, str, str], list[RunIoRow]] = defaultdict(list)
    for row in changes.run_io:
        if row.direction == "OUTPUT":
            pending[row.dataset_namespace, row.dataset_name, row.run_uuid].append(row)
    records: dict[tuple[object, ...], DatasetWriteRecord] = {}
    for write in writes:
        namespace, dataset, version, run_uuid, at, schema_id, state, _ = write
        records[namespace, dataset, version, run_uuid, *(() if run_uuid is not None else (schema_id, state))] = write
        for row in pending.get((namespace, dataset, run_uuid or ""), ()):
            key = namespace, dataset, row.dataset_version, run_uuid
            known = records.get(key)
            old_schema, old_count = (None, None) if known is None else (known[5], known[7])
            count = row.row_count if old_count is None else old_count
            records[key] = (*key, at, old_schema or row.schema_id, None, count)
    for declared in changes.declarations:
        name, content = (
            (declared.dataset_namespace, declared.dataset_name),
            (declared.schema_id or None, declared.lifecycle_state or None),
        )
        if name in names:
            key = *name, declared.version or "", None
            records.setdefault((*key, *content), (*key, declared.created_at, *content, None))
    return sorted(records.values(), key=itemgetter(4))


def _group_aliases(rows: Iterable[tuple[str, str, str, str]]) -> dict[Name, tuple[Name, ...]]:
    by_canonical: defaultdict[Name, list[Name]] = defaultdict(list)
    for namespace, name, *canonical in rows:
        by_canonical[canonical[0], canonical[1]].append((namespace, name))
    groups = (tuple(dict.fromkeys((canonical, *names))) for canonical, names in by_canonical.items())
    return {name: names for names in groups for name in names}
