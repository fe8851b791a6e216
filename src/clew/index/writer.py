"""Write change sets to the index; derived rows, job versions, staged rebuild."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal, Self

from msgspec import Struct
from msgspec.structs import astuple

from clew._gc import gc_paused
from clew.data_dir import IndexLocation
from clew.events.facets import FacetOrder, resolve_aliases
from clew.events.ids import ITEM_SEPARATOR, NAME_SEPARATOR, Identity, compute_job_version_from_keys
from clew.events.openlineage import TERMINAL_RANK
from clew.index.backends import open_backend
from clew.index.backends.base import BackendWriter, Database
from clew.index.backends.sqlite import read_dictionaries
from clew.index.changes import ChangeSet, RunIoRow, RunRow
from clew.index.encoding import (
    DELETED,
    MIN_TRAINING_SAMPLES,
    FacetDecoder,
    FacetEncoder,
    merge_facets,
    train_dictionary,
)
from clew.index.merge_rules import MERGE_SPECS, MergeSpec

_ORDER = "coalesce({row}.{prefix}order_time, 0), {row}.{prefix}seq"
_DELETE_SUPERSEDED = f"""delete from {{table}}
    where asserted_by = ?1 {{condition}} and ({_ORDER.format(row="{table}", prefix="")})
    < (select {_ORDER.format(row="static_lineage", prefix="")} from static_lineage where asserted_by = ?1)"""  # noqa: S608
_OF_JOB = "job_namespace = ?1 and job_name = ?2 and declared_seq is not null"
_MARK_SUPERSEDED = f"""update reported_job_edges set is_superseded = 1
    where {_OF_JOB} and is_observed = 0 and ({_ORDER.format(row="reported_job_edges", prefix="declared_")})
    < (select {_ORDER.format(row="last", prefix="declared_")} from reported_job_edges as last
        where {_OF_JOB} order by 1 desc, 2 desc limit 1)"""  # noqa: S608

# Most events repeat the symlinks; triggers record a change.
_RESET_SYMLINKS_CHANGED = "delete from meta where key = 'symlinks_changed'"


def finalize_lineage(database: Database, changes: ChangeSet) -> None:
    """Make the index independent of the order of batches; call it within the transaction of a batch."""
    _delete_superseded_lineage(database, changes)
    _mark_superseded_edges(database, changes)
    if changes.symlinks and database.execute(_RESET_SYMLINKS_CHANGED).rowcount:
        _recompute_canonical_names(database)


def _delete_superseded_lineage(database: Database, changes: ChangeSet) -> None:
    """Delete explicit lineage that a job declared before its last declaration."""
    asserters = {(row.asserted_by,) for row in changes.static_lineage}
    asserters |= {(row.asserted_by,) for row in changes.lineage_assertions if row.run_uuid is None}
    asserters |= {(row.asserted_by,) for row in changes.job_dependency_assertions if row.run_uuid is None}
    for table, condition in (("lineage_assertions", "and origin = 'lineage'"), ("job_dependency_assertions", "")):
        database.executemany(_DELETE_SUPERSEDED.format(table=table, condition=condition), asserters)


def _mark_superseded_edges(database: Database, changes: ChangeSet) -> None:
    """Mark inputs and outputs that a job declared only before its last declaration."""
    jobs = {(row.job_namespace, row.job_name) for row in changes.reported_job_edges if row.declared_seq is not None}
    database.executemany(_MARK_SUPERSEDED, jobs)


def _recompute_canonical_names(database: Database) -> None:
    symlinks = database.execute("select namespace, name, identifiers from symlinks order by 1, 2").fetchall()
    pairs = (
        ((namespace, name), tuple(alias)) for namespace, name, aliases in symlinks for alias in json.loads(aliases)
    )
    rows = {(*name, *canonical) for name, canonical in resolve_aliases(pairs).items()}
    existing = set(database.execute("select namespace, name, canonical_namespace, canonical_name from dataset_aliases"))
    database.executemany(
        "delete from dataset_aliases where namespace = ? and name = ?", (row[:2] for row in existing - rows)
    )
    database.executemany("insert into dataset_aliases values (?, ?, ?, ?)", rows - existing)


# One row per run, with all inputs and outputs in one string: ten times fewer rows than one per input and output.
_ENDED_RUNS = """select run_uuid, job_namespace, job_name, source_code_location, coalesce((
    select group_concat(substr(direction, 1, 1) || dataset_namespace || ?1 || dataset_name, ?2)
    from run_io where run_io.run_uuid = runs.run_uuid
), '')
from runs where run_uuid in (select value ->> 0 from json_each(?3)) and state_rank = ?4 and job_name is not null
and job_version is null"""
_INPUT, _OUTPUT = "I", "O"


def assign_job_versions(runs: Iterable[RunRow], io: Iterable[RunIoRow]) -> None:
    """Set the job version of ended runs from their rows."""
    io_keys: defaultdict[str, list[str]] = defaultdict(list)
    for row in io:
        io_keys[row.run_uuid].append(f"{row.direction[0]}{row.dataset_namespace}{NAME_SEPARATOR}{row.dataset_name}")
    for run in runs:
        if run.state_rank == TERMINAL_RANK and run.job_name is not None:
            job = run.job_namespace or "", run.job_name
            run.job_version = _version(job, ITEM_SEPARATOR.join(io_keys[run.run_uuid]), run.source_code_location)


def fill_job_versions(database: Database, run_uuids: Iterable[str]) -> None:
    """Compute the missing job versions of ended runs after a merge."""
    values = NAME_SEPARATOR, ITEM_SEPARATOR, json.dumps([[run_uuid] for run_uuid in run_uuids]), TERMINAL_RANK
    versions = [
        (_version((namespace, job), io, location), run_uuid)
        for run_uuid, namespace, job, location, io in database.execute(_ENDED_RUNS, values)
    ]
    database.executemany("update runs set job_version = ? where run_uuid = ?", versions)


def _version(job: Identity, io: str, location: str | None) -> str:
    return compute_job_version_from_keys(job, _dataset_keys(io, _INPUT), _dataset_keys(io, _OUTPUT), location)


def _dataset_keys(io: str, direction: str) -> set[str]:
    return {dataset[1:] for dataset in io.split(ITEM_SEPARATOR) if dataset[:1] == direction}


_IDS_PER_QUERY = 500
_EVENT_COUNT = """select (select count(*) from events) + (
    select count(*) from rejected where event_id not in (select event_id from events))"""
_SET_META = "insert into meta values (?, ?) on conflict (key) do update set value = excluded.value"
_LAST_BATCH_KEY = "last_batch/"
_EVENTS, _EVENTS_ROW = MergeSpec(("event_id",)), ("event_id", "batch")
_NUMBER = "select number from batches where name = ?"
_NEXT_NUMBER = "insert into batches select ?, coalesce(max(number), 0) + 1 from batches"
# Only the batch that was interrupted is retried, so older batch names are not needed.
_MAX_BATCHES = 1_000
_PRUNE_BATCHES = "delete from batches where number <= ?"
# Most runs of a job have the same edge sets and schemas: those that were just written are skipped.
_MAX_CACHED_IDS = 100_000


class IndexWriter:
    """The single writer of an index."""

    def __init__(
        self,
        location: IndexLocation,
        order: FacetOrder = FacetOrder.RECEIVED,
        connect: Callable[[], BackendWriter] | None = None,
    ) -> None:
        self.location = location
        self._connect = connect or open_backend(location).writer
        self._order = order

    def __enter__(self) -> Self:
        self._writer = self._connect()
        self._database = self._writer.database
        # An attribute, because it is read while a batch is being written.
        self.dictionary: bytes | None = None
        self._use_dictionaries()
        self._written_edge_sets: set[str] = set()
        self._written_schemas: set[str] = set()
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    @property
    def event_count(self) -> int:
        """Number of events, including rejected ones."""
        count: int = self._database.execute(_EVENT_COUNT).fetchone()[0]
        return count

    def existing_event_ids(
        self, event_ids: Sequence[str], batch: str, table: Literal["events", "rejected"] = "events"
    ) -> set[str]:
        """Return the events that another batch ingested or rejected before."""
        number = self._number_of(batch) or 0
        existing: set[str] = set()
        for start in range(0, len(event_ids), _IDS_PER_QUERY):
            chunk = [bytes.fromhex(event_id) for event_id in event_ids[start : start + _IDS_PER_QUERY]]
            parameters = ",".join("?" * len(chunk))
            query = f"select event_id from {table} where batch != ? and event_id in ({parameters})"  # noqa: S608
            existing.update(row[0].hex() for row in self._database.execute(query, (number, *chunk)))
        return existing

    def train_dictionary(self, facets: Sequence[bytes]) -> None:
        """Train a zstd dictionary, unless there is one or the facets are too few."""
        if self.dictionary is None:
            self._train_dictionary(facets)
            self._use_dictionaries()

    def last_batch(self, app_id: str) -> int | None:
        """Return the number of the last applied batch of a pipeline; None if there is none."""
        row = self._database.execute("select value from meta where key = ?", (f"{_LAST_BATCH_KEY}{app_id}",)).fetchone()
        return None if row is None else int(row[0])

    def record_batch(self, app_id: str, number: int) -> None:
        """Record that all batches of a pipeline up to this one were applied."""
        self._database.execute(_SET_META, (f"{_LAST_BATCH_KEY}{app_id}", str(number)))

    def apply(self, batch: str, changes: ChangeSet, spilled: Iterable[ChangeSet] = ()) -> None:
        """Merge the changes of a batch; idempotent.

        `spilled` are further changes of the same events, loaded one at a time because they are large.
        """
        with gc_paused(), self._writer.transaction():
            # A concurrent backfill may have trained one.
            self._use_dictionaries()
            self._record_events(batch, changes)
            self._merge_all(changes)
            for more in spilled:
                self._merge_all(more)
            if self.dictionary is None:
                self._train_dictionary(self._facet_bodies(changes))
            self._record_progress(batch, max((seq for seq, _ in (*changes.events, *changes.rejected)), default=0))
        self._use_dictionaries()
        _cache_ids(self._written_edge_sets, (edge.edge_set_id for edge in changes.edge_sets))
        _cache_ids(self._written_schemas, (schema.schema_id for schema in changes.schemas))

    def create_indexes(self) -> None:
        """Create the indexes that a bulk writer omits."""
        self._writer.create_indexes()

    def release_memory(self) -> None:
        """Release caches."""
        self._writer.release_memory()

    def _record_events(self, batch: str, changes: ChangeSet) -> None:
        number = self._number_of(batch)
        if number is None:
            self._database.execute(_NEXT_NUMBER, (batch,))
            number = self._number_of(batch) or 0
            self._database.execute(_PRUNE_BATCHES, (number - _MAX_BATCHES,))
        for table, events in (("events", changes.events), ("rejected", changes.rejected)):
            rows = [(bytes.fromhex(event_id), number) for _, event_id in events]
            self._writer.merge(table, _EVENTS, _EVENTS_ROW, rows)

    def _number_of(self, batch: str) -> int | None:
        row = self._database.execute(_NUMBER, (batch,)).fetchone()
        return None if row is None else int(row[0])

    def _merge_all(self, change_set: ChangeSet) -> None:
        changes = self._writer.sanitized(change_set)
        changes.edge_sets = [edge for edge in changes.edge_sets if edge.edge_set_id not in self._written_edge_sets]
        changes.schemas = [schema for schema in changes.schemas if schema.schema_id not in self._written_schemas]
        for table in MERGE_SPECS:
            self._merge(table, getattr(changes, table))
        finalize_lineage(self._database, changes)
        fill_job_versions(self._database, {run.run_uuid for run in changes.runs})
        self._writer.upsert_facets(changes.facets, self._merge_blobs)

    def _merge(self, table: str, rows: Sequence[Struct]) -> None:
        if rows:
            names = type(rows[0]).__struct_fields__
            self._writer.merge(table, MERGE_SPECS[table], names, list(map(astuple, rows)))

    def _merge_blobs(self, existing: bytes, incoming: bytes) -> bytes:
        facets = self._decoder.decode(incoming)
        merged = merge_facets(self._decoder.decode(existing), facets, self._order)
        # Usually an event repeats all facets of earlier ones.
        return incoming if merged == facets else self._encoder.encode(merged)

    def _facet_bodies(self, changes: ChangeSet) -> list[bytes]:
        facets = (facet for row in changes.facets for facet in self._decoder.decode(row.body))
        return [facet.body for facet in facets if facet.body != DELETED]

    def _record_progress(self, batch: str, seq: int) -> None:
        self._database.execute(
            """insert into meta as existing values ('indexed_seq', ?) on conflict (key) do update
            set value = cast(max(cast(existing.value as bigint), cast(excluded.value as bigint)) as text)""",
            (str(seq),),
        )
        progress = {"last_batch": batch, "indexed_at": datetime.now(UTC).isoformat(timespec="milliseconds")}
        self._database.executemany(_SET_META, list(progress.items()))
        app_id, _, number = batch.rpartition("/")
        if number.isdecimal():
            self.record_batch(app_id, int(number))

    def _train_dictionary(self, facets: Sequence[bytes]) -> None:
        if len(facets) >= MIN_TRAINING_SAMPLES:
            self._database.execute(
                "insert into zstd_dictionaries values (?, ?) on conflict do nothing", train_dictionary(facets)
            )

    def _use_dictionaries(self) -> None:
        """Load the dictionaries; there is none until enough facets were stored."""
        dictionaries = read_dictionaries(self._database)
        latest = next(reversed(dictionaries.values()), None)
        if self.dictionary is None or latest != self.dictionary:
            self.dictionary = latest
            self._encoder, self._decoder = FacetEncoder(latest), FacetDecoder(dictionaries)


def _cache_ids(cache: set[str], ids: Iterable[str]) -> None:
    if len(cache) > _MAX_CACHED_IDS:
        cache.clear()
    cache.update(ids)


@contextmanager
def build_and_swap(location: IndexLocation, order: FacetOrder = FacetOrder.RECEIVED) -> Iterator[IndexWriter]:
    """Yield a writer of a new index, and swap it in at the end; after an error the existing index is unchanged."""
    with open_backend(location).staged() as staging, IndexWriter(location, order, staging.bulk_writer) as index:
        yield index
        index.create_indexes()
