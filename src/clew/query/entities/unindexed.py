"""Entities with events that are in the log but not in the index yet.

They are read from a small copy of the index: the rows of the entities that the events name, merged with the events by
the rules of the index. A client thus reads what it wrote, without waiting for the pipeline.
"""

from __future__ import annotations

import tempfile
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from clew.eventlog.segments import decode_record, is_damaged, list_paths, list_segments, read_lines, split_ranges
from clew.events.decoding import RejectedError
from clew.events.facets import find_parent
from clew.events.ids import event_id
from clew.events.openlineage import ANNOTATIONS_NAME, ANNOTATIONS_NAMESPACE, Event
from clew.events.streams import Stream, decode_event
from clew.index.backends.base import Database, Row
from clew.index.backends.sqlite import SqliteBackend
from clew.index.encoding import dataset_key, entity_key, prefix_end
from clew.index.extract.extractor import ChangeExtractor
from clew.index.queries.connection import IndexVersion
from clew.index.queries.entities import Name, to_json_array
from clew.index.queries.reader import IndexReader
from clew.index.writer import IndexWriter
from clew.query.entities.catalog import Catalog, UnindexedAnnotations

EntityReference: TypeAlias = tuple[Literal["run"], str] | tuple[Literal["job", "dataset"], str, str]

# At most the newest bytes of the log are read: more are not indexed only if no pipeline runs.
MAX_TAIL_BYTES: Final = 32 << 20
# Events that one copy is merged with.
_MAX_EVENTS: Final = 500
_MAX_RUNS_OF_JOB: Final = 10
_MAX_WRITES: Final = 20
_MAX_ASSERTIONS: Final = 100
_MAX_FACET_ROWS: Final = 100
_NEWEST_WRITERS = """select run_uuid from run_io where dataset_namespace = ? and dataset_name = ?
and direction = 'OUTPUT' order by last_seq desc limit ?"""
_NAMED = "({namespace}, {name}) in (select value ->> 0, value ->> 1 from json_each(?) named)"
_BY_RUN = ("runs", "referenced_runs", "run_io")
# Tables by the prefix of their columns with a namespace and a name.
_BY_JOB = {"jobs": "", "referenced_jobs": "", "job_declarations": "job_", "reported_job_edges": "job_"}
_BY_DATASET = {
    **dict.fromkeys(("datasets", "renames", "symlinks", "dataset_aliases"), ""),
    **dict.fromkeys(("dataset_declarations", "reported_job_edges"), "dataset_"),
}


class TailEvent(Struct, frozen=True):
    """An event that is not in the index, and the runs, jobs and datasets that it names."""

    seq: int
    event: Event
    event_id: str
    entities: frozenset[EntityReference]


class LogTail:
    """The events at the end of the log that the index does not have, by the entities that they name."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._identity = ""
        self._indexed_seq = -1
        self._position = 0
        self._state: object = None
        self._events: dict[EntityReference, list[TailEvent]] = {}

    def find_events(self, entity: EntityReference, version: IndexVersion | None) -> list[TailEvent]:
        """Return the events about an entity and about what they name, oldest first; `version` is that of the index."""
        with self._lock:
            self._refresh(version)
            own = self._events.get(entity, ())
            related = {reference for event in own for reference in event.entities}
            events = {event.seq: event for reference in related for event in self._events[reference]}
        return [events[seq] for seq in sorted(events)[-_MAX_EVENTS:]]

    def is_empty(self, version: IndexVersion | None) -> bool:
        """Return whether an index has all events."""
        with self._lock:
            self._refresh(version)
            return not self._events

    def _refresh(self, version: IndexVersion | None) -> None:
        identity, indexed_seq = ("", -1) if version is None else (version.identity, version.indexed_seq)
        if version is not None and not version.last_batch:
            indexed_seq = -1
        if identity != self._identity or indexed_seq < self._indexed_seq:
            self._position, self._state = 0, None
            self._events = {}
        if indexed_seq > self._indexed_seq:
            self._forget(indexed_seq)
        self._identity, self._indexed_seq = identity, indexed_seq
        state = self._log_state()
        if state != self._state:
            self._read_new(indexed_seq)
            self._state = state

    def _forget(self, indexed_seq: int) -> None:
        """Remove the events up to a position."""
        remaining = {
            reference: [event for event in events if event.seq > indexed_seq]
            for reference, events in self._events.items()
        }
        self._events = {reference: events for reference, events in remaining.items() if events}

    def _log_state(self) -> object:
        """Return a value that changes with the log, in the time of two system calls."""
        try:
            paths = list_paths(self._log)
            return (paths[-1].name, paths[-1].stat().st_size) if paths else None
        except OSError:
            return None

    def _read_new(self, indexed_seq: int) -> None:
        segments = list_segments(self._log)
        end = segments[-1].end if segments else 0
        start = max(self._position, indexed_seq, end - MAX_TAIL_BYTES)
        for log_range in split_ranges(self._log, start, end, MAX_TAIL_BYTES):
            for seq, line in read_lines(log_range):
                if seq > indexed_seq and (event := _parse_line(seq, line)) is not None:
                    for reference in event.entities:
                        self._events.setdefault(reference, []).append(event)
        self._position = end


def _parse_line(seq: int, line: bytes) -> TailEvent | None:
    if is_damaged(line):
        return None
    record = decode_record(line)
    try:
        event = decode_event(record.stream, record.body) if record.stream == Stream.OPENLINEAGE else None
    except RejectedError:
        return None
    if not isinstance(event, Event):
        return None
    return TailEvent(seq, event, event_id(record.body), frozenset(event_references(event)))


def event_references(event: Event) -> Iterator[EntityReference]:
    """Yield the runs, jobs and datasets that an event names."""
    if event.run is not None:
        yield "run", event.run.run_id
        job = (None, None) if event.job is None else (event.job.namespace, event.job.name)
        facet = find_parent(event.run.facets or {}, job)
        for parent in () if facet is None else facet.runs:
            yield "run", parent.run_uuid
            if parent.job is not None:
                yield "job", *parent.job
    if event.job is not None:
        yield "job", event.job.namespace, event.job.name
    datasets = (*(event.inputs or ()), *(event.outputs or ()), *((event.dataset,) if event.dataset else ()))
    for dataset in datasets:
        yield "dataset", dataset.namespace, dataset.name


class UnindexedCatalogs:
    """Opens catalogs that include events which the index does not have yet."""

    def __init__(self, log: Path, annotations: UnindexedAnnotations) -> None:
        self._tail = LogTail(log)
        self._annotations = annotations

    def find_events(self, catalog: Catalog | None, entity: EntityReference) -> list[TailEvent]:
        """Return the events about an entity that the index of a catalog does not have."""
        return self._tail.find_events(entity, None if catalog is None else catalog.reader.version())

    def is_indexed(self, catalog: Catalog | None) -> bool:
        """Return whether the index of a catalog has all events."""
        return self._tail.is_empty(None if catalog is None else catalog.reader.version())

    @contextmanager
    def open(self, catalog: Catalog | None, events: Collection[TailEvent]) -> Iterator[Catalog]:
        """Open a catalog of the entities of events: the rows of the index, if there is one, merged with the events."""
        with tempfile.TemporaryDirectory(prefix="clew-", dir=_memory_folder()) as folder:
            path = Path(folder, "index.sqlite")
            # Small enough to read without the indexes that a bulk writer omits.
            target = SqliteBackend(path).bulk_writer()
            if catalog is not None:
                entities = {reference for event in events for reference in event.entities}
                IndexCopy(catalog.reader, target.database).copy(entities)
            with IndexWriter(path, connect=lambda: target) as writer:
                extractor = ChangeExtractor(writer.dictionary)
                for event in events:
                    extractor.add(event.event, event.event_id, event.seq)
                writer.apply("unindexed/0", extractor.changes())
            with IndexReader(path) as reader, reader.snapshot():
                unindexed = Catalog(reader, self._annotations)
                unindexed.refresh()
                yield unindexed


def _memory_folder() -> str | None:
    """Return a folder in memory, if there is one."""
    folder = Path("/dev/shm")  # noqa: S108  # a private folder is created in it
    return str(folder) if folder.is_dir() else None


class IndexCopy:
    """Copies the rows of entities from an index to another."""

    def __init__(self, reader: IndexReader, target: Database) -> None:
        self._reader = reader
        self._target = target
        self._schemas = set[str]()

    def copy(self, entities: Iterable[EntityReference]) -> None:
        """Copy the rows of runs, jobs and datasets, and of the runs that decide about jobs and datasets."""
        names: defaultdict[str, set[Name]] = defaultdict(set)
        runs = set[str]()
        for kind, *identity in entities:
            if kind == "run":
                runs.add(identity[0])
            else:
                names[kind].add((identity[0], identity[1]))
        datasets = {alias for name in names["dataset"] for alias in self._reader.aliases_of(name)}
        for job in names["job"]:
            runs.update(run.run_uuid for run in self._reader.runs_of_job(job, _MAX_RUNS_OF_JOB))
        for dataset in datasets:
            writers = self._reader.query(_NEWEST_WRITERS, *dataset, _MAX_WRITES)
            runs.update(row["run_uuid"] for row in writers)
        self._target.execute("begin")
        self._copy("zstd_dictionaries", "true")
        for table in _BY_RUN:
            self._copy(table, "run_uuid in (select atom from json_each(?) wanted)", to_json_array(sorted(runs)))
        for tables, wanted in ((_BY_JOB, names["job"]), (_BY_DATASET, datasets)):
            for table, prefix in tables.items():
                condition = _NAMED.format(namespace=f"{prefix}namespace", name=f"{prefix}name")
                self._copy(table, condition, to_json_array(sorted(wanted)))
        for dataset in datasets:
            self._copy_column_lineage(dataset)
        self._copy_facets(runs, names["job"], datasets)
        self._copy("schemas", "schema_id in (select atom from json_each(?) wanted)", to_json_array(self._schemas))
        self._target.execute("commit")

    def _copy_column_lineage(self, dataset: Name) -> None:
        assertions = self._copy(
            "lineage_assertions",
            "dataset_namespace = ? and dataset_name = ? order by seq desc limit ?",
            *dataset,
            _MAX_ASSERTIONS,
        )
        edge_sets = {row["edge_set_id"] for row in assertions}
        self._copy("edge_sets", "edge_set_id in (select atom from json_each(?) wanted)", to_json_array(edge_sets))

    def _copy_facets(self, runs: Iterable[str], jobs: Iterable[Name], datasets: Iterable[Name]) -> None:
        keys = [("run", run) for run in runs] + [("job", entity_key(*job)) for job in jobs]
        keys.append(("dataset", dataset_key(ANNOTATIONS_NAMESPACE, ANNOTATIONS_NAME, None)))
        self._copy("facets", _NAMED.format(namespace="kind", name="entity_key"), to_json_array(keys))
        prefixes = [("dataset", entity_key(*dataset, "")) for dataset in datasets]
        prefixes += [(kind, entity_key(run, "")) for kind in ("input", "output") for run in runs]
        for kind, prefix in prefixes:
            condition = "kind = ? and entity_key >= ? and entity_key < ? order by last_seq desc limit ?"
            self._copy("facets", condition, kind, prefix, prefix_end(prefix), _MAX_FACET_ROWS)

    def _copy(self, table: str, condition: str, *values: object) -> list[Row]:
        columns = [row[1] for row in self._target.execute(f"pragma table_info('{table}')")]
        selected = ", ".join(f'"{column}"' for column in columns)
        rows = self._reader.query(f"select {selected} from {table} where {condition}", *values)  # noqa: S608
        parameters = ", ".join("?" * len(columns))
        self._target.executemany(
            f"insert or ignore into {table} ({selected}) values ({parameters})",  # noqa: S608
            [tuple(row) for row in rows],
        )
        if "schema_id" in columns and table != "schemas":
            self._schemas.update(row["schema_id"] for row in rows if row["schema_id"])
        return rows
