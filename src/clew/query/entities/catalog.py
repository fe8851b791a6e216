"""The catalog: lists, counts, sources, statistics, raw events."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Raw, Struct

from clew.data_dir import LakeLocation
from clew.eventlog.segments import Segment, decode_record, is_damaged, list_segments
from clew.events.facets import decode_facet, get_str
from clew.events.openlineage import ANNOTATIONS_NAME, ANNOTATIONS_NAMESPACE, to_epoch_micros
from clew.index.backends.base import Row
from clew.index.encoding import entity_key
from clew.index.queries.entities import Facets, Name
from clew.index.queries.lists import EntityFilter, HiddenUntil
from clew.index.queries.reader import IndexReader
from clew.index.visibility import NameMask
from clew.query.entities.aliases import AliasStore
from clew.query.entities.annotations import Annotations
from clew.query.entities.datasets import DEFAULT_SOURCE, ColumnSourceCache, load_dataset_versions, load_datasets
from clew.query.entities.model import (
    CatalogDataset,
    CatalogJob,
    CatalogRun,
    DatasetVersion,
    DataSource,
    JobVersion,
    Namespace,
    VersionCache,
    VersionRecord,
)
from clew.query.entities.runs import load_job_versions, load_jobs, load_run_io, load_runs
from clew.query.graph.nodes import Node
from clew.query.graph.traversal import traverse_runs
from clew.query.model import EPOCH, DatasetName, from_epoch_micros

if TYPE_CHECKING:
    from clew.lake.history import RunEvent

ANONYMOUS = "anonymous"


class DataSourceCache:
    """Cache of data sources by name; refreshed from datasets with changed facets only."""

    def __init__(self) -> None:
        self._seq = -1
        self._by_dataset: dict[Name, DataSource] = {}

    def all(self, reader: IndexReader, annotations: Annotations) -> list[DataSource]:
        """Return all data sources by name."""
        self._refresh(reader)
        sources: dict[str, DataSource] = {}
        for source in self._by_dataset.values():
            sources.setdefault(source.name, source)
        # The source of datasets without a dataSource facet. Marquez creates it before any event.
        first = from_epoch_micros(reader.first_event_time()) or EPOCH
        sources.setdefault(DEFAULT_SOURCE, DataSource(_type(""), DEFAULT_SOURCE, first, first, "", None))
        for name, annotation in annotations.sources().items():
            times = annotation.created_at or EPOCH, annotation.updated_at or EPOCH
            sources[name] = DataSource(annotation.type, name, *times, annotation.url, annotation.description)
        return [sources[name] for name in sorted(sources)]

    def _refresh(self, reader: IndexReader) -> None:
        changed = reader.facets_changed_since(self._seq)
        rows = reader.datasets_of([name for name, _, _ in changed]) if changed else {}
        for name, seq, facets in changed:
            self._seq = max(self._seq, seq)
            if "dataSource" in facets and name in rows:
                value = decode_facet(bytes(facets["dataSource"]))
                url = get_str(value, "uri") or ""
                source = get_str(value, "name") or DEFAULT_SOURCE
                times = from_epoch_micros(rows[name].first_event_at), from_epoch_micros(rows[name].last_event_at)
                self._by_dataset[name] = DataSource(_type(url), source, *times, url, None)


def _type(url: str) -> str:
    """Derive the source type from the scheme of a URL."""
    scheme, separator, _ = url.removeprefix("jdbc:").partition(":")
    return scheme.upper() if separator and scheme.isascii() else "UNKNOWN"


HOURS = 24
DAYS = 7


class Interval(Struct, frozen=True):
    """A time interval; the end is exclusive."""

    start: datetime
    end: datetime


class EventCount(Struct, frozen=True, rename="camel"):
    """Number of run events in an interval, by type."""

    start_interval: datetime
    end_interval: datetime
    fail: int
    start: int
    complete: int
    abort: int


class EntityCount(Struct, frozen=True, rename="camel"):
    """Number of entities at the end of an interval."""

    start_interval: datetime
    end_interval: datetime
    count: int


def hourly_intervals(now: datetime) -> list[Interval]:
    """Return the hours of the last day, including the current hour."""
    first = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    return [Interval(first + timedelta(hours=n), first + timedelta(hours=n + 1)) for n in range(HOURS)]


def daily_intervals(now: datetime, zone: tzinfo) -> list[Interval]:
    """Return the days of the last week in a time zone, including today."""
    today = now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today - timedelta(days=n) for n in range(DAYS - 1, -2, -1)]
    boundaries = [day.astimezone(UTC) for day in days]
    return [Interval(*ends) for ends in pairwise(boundaries)]


def count_events(events: Iterable[tuple[int, str]], intervals: Sequence[Interval]) -> list[EventCount]:
    """Count run events, given by time and type, in consecutive intervals."""
    ends = [to_epoch_micros(interval.end) for interval in intervals]
    counts = Counter((bisect_left(ends, event_time + 1), event_type) for event_time, event_type in events)
    types = ("FAIL", "START", "COMPLETE", "ABORT")
    return [
        EventCount(interval.start, interval.end, *(counts[number, kind] for kind in types))
        for number, interval in enumerate(intervals)
    ]


def count_before_end(times: Sequence[int], intervals: Sequence[Interval]) -> list[EntityCount]:
    """Count the sorted times before the end of each interval."""
    return [
        EntityCount(interval.start, interval.end, bisect_left(times, to_epoch_micros(interval.end)))
        for interval in intervals
    ]


def first_log_position(log: Path) -> int:
    """Return the first position of the log; earlier segments have expired."""
    segments = list_segments(log)
    return segments[0].base if segments else 0


def read_events(log: Path, positions: Iterable[int]) -> Iterator[Raw]:
    """Read the events at positions; expired and damaged ones are left out."""
    segments = list_segments(log)
    bases = [segment.base for segment in segments]
    for position in positions:
        number = bisect_right(bases, position) - 1
        if number >= 0 and position < segments[number].end:
            line = _read_line(segments[number], position)
            if not is_damaged(line):
                yield Raw(decode_record(line).body)


def _read_line(segment: Segment, position: int) -> bytes:
    with segment.path.open("rb") as file:
        file.seek(position - segment.base)
        return file.readline()[:-1]


MAX_NEIGHBOURHOOD_NODES = 20_000


class UpstreamRun(Struct, frozen=True):
    """A run upstream of another, and the run that wrote each of its inputs, if it is known."""

    run: CatalogRun
    writers: tuple[str | None, ...]


_HIDDEN_ANNOTATIONS = HiddenUntil(ANNOTATIONS_NAMESPACE, ANNOTATIONS_NAME, 2**63 - 1)


class UnindexedAnnotations:
    """Annotations that are in the log but not yet in the index, so that a client reads its own writes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[tuple[str, tuple[tuple[str, bytes, int], ...]]] = []
        self._version = 0

    def add(self, event_id: str, annotations: Iterable[tuple[str, bytes]], position: int) -> None:
        """Add the annotations of a stored event; later events have a greater position in the log."""
        with self._lock:
            self._entries.append((event_id, tuple((key, body, position) for key, body in annotations)))
            self._version += 1

    def not_in(self, reader: IndexReader) -> list[tuple[str, bytes, int]]:
        """Return the annotations that an index does not have yet, oldest first, and drop the others."""
        with self._lock:
            self._entries = [entry for entry in self._entries if not reader.has_event(entry[0])]
            return [annotation for _, annotations in self._entries for annotation in annotations]

    @property
    def version(self) -> int:
        """Number of events that were added."""
        return self._version

    @property
    def is_empty(self) -> bool:
        """True if all annotations are in the index."""
        return not self._entries


class Catalog:
    """Catalog queries of one reader; its caches are reset when the index changes."""

    def __init__(
        self,
        reader: IndexReader,
        unindexed: UnindexedAnnotations,
        lake: LakeLocation | None = None,
        alias_store: AliasStore | None = None,
    ) -> None:
        self.reader = reader
        self._alias_store = alias_store
        self._unindexed = unindexed
        self._lake = lake
        self._data_version: object = None
        self._identity: str | None = None
        self._annotations: Annotations | None = None
        self._unindexed_version = 0

    def refresh(self) -> None:
        """Reset the caches if the index has changed."""
        data_version = self.reader.data_version()
        if data_version != self._data_version:
            self._data_version, self._annotations = data_version, None
            self._reset_on_new_index(self.reader.version().identity)
            self._column_sources.clear()
            self._aliases = self.reader.aliases_by_dataset()
            self._versions = VersionCache(self.reader, self._aliases)

    def _reset_on_new_index(self, identity: str) -> None:
        """Drop the caches that outlive index changes if the index was replaced."""
        if identity != self._identity:
            self._identity = identity
            self._sources, self._column_sources = DataSourceCache(), ColumnSourceCache(self.reader)

    @property
    def annotations(self) -> Annotations:
        """User annotations, including those not yet in the index."""
        version = self._unindexed.version
        if self._annotations is None or version != self._unindexed_version:
            self._unindexed_version = version
            stored = self.reader.stored_facets("dataset", ANNOTATIONS_NAMESPACE, ANNOTATIONS_NAME, None)
            self._annotations = Annotations(stored, self._unindexed.not_in(self.reader), self.reader.mask)
        return self._annotations

    def namespaces(self) -> list[Namespace]:
        """Return all namespaces by name, including hidden ones."""
        rows = {row["namespace"]: row for row in self.reader.namespaces()}
        names = sorted({*rows, *self.annotations.namespaces()})
        return [self._namespace(name, rows.get(name)) for name in names]

    def _namespace(self, name: str, row: Row | None) -> Namespace:
        annotation, hidden_at = self.annotations.namespace(name), self.annotations.hidden_namespace(name)
        seqs = (self.reader.last_event_seq(kind, name, None) or 0 for kind in ("job", "dataset"))
        first, last = [], []
        if row is not None:
            first.append(from_epoch_micros(row["first_event_at"]))
            last.append(from_epoch_micros(row["last_event_at"]))
        if annotation is not None:
            first.append(annotation.created_at)
            last.append(annotation.updated_at)
        return Namespace(
            name,
            created_at=min(created) if (created := [time for time in first if time is not None]) else EPOCH,
            updated_at=max(updated) if (updated := [time for time in last if time is not None]) else EPOCH,
            owner_name=ANONYMOUS if annotation is None else annotation.owner,
            description=None if annotation is None else annotation.description,
            is_hidden=hidden_at is not None and hidden_at >= max(seqs),
        )

    def has_namespace(self, name: str) -> bool:
        """Check whether events or annotations name a namespace."""
        return self.reader.has_namespace(name) or name in self.annotations.namespaces()

    def sources(self) -> list[DataSource]:
        """Return all data sources by name."""
        return self._sources.all(self.reader, self.annotations)

    def jobs(
        self, namespace: str | None, states: Collection[str] | None, limit: int, offset: int
    ) -> tuple[list[CatalogJob], int]:
        """Return jobs, last updated first, optionally filtered by the state of the latest run, and their number."""
        jobs = EntityFilter(namespace, states=states, hidden=self._hidden("job"))
        rows, total = self.reader.entity_page("all_jobs", jobs, "last event", limit, offset)
        return self.jobs_by_name([(row["namespace"], row["name"]) for row in rows]), total

    def job(self, name: Name) -> CatalogJob | None:
        """Return a job, also by its name in a catalog that was imported; None if it is unknown or hidden."""
        jobs = [] if self._is_hidden("job", name) else self.jobs_by_name([name])
        if jobs or self._alias_store is None:
            return jobs[0] if jobs else None
        alias = self._alias_store.find_job(*name)
        return None if alias is None or alias == name[1] else self.job((name[0], alias))

    def resolve_job_version(self, version: str) -> str | None:
        """Return the id of a job version by its id in a catalog that was imported."""
        alias = None if self._alias_store is None else self._alias_store.find_version(version)
        run = None if alias is None else self.reader.runs_of([alias.run_uuid]).get(alias.run_uuid)
        return None if run is None else run.job_version

    def resolve_node_id(self, node_id: str) -> str | None:
        """Return the id of a job node by its id in a catalog that was imported."""
        return None if self._alias_store is None else self._alias_store.find_node_id(node_id)

    def jobs_by_name(self, names: Collection[Name]) -> list[CatalogJob]:
        """Return jobs by name."""
        return load_jobs(self.reader, names, self._versions, self.annotations)

    def job_versions(self, name: Name) -> list[JobVersion]:
        """Return the versions of a job, newest first."""
        return load_job_versions(self.reader, self._versions, name)

    def runs_of_job(self, name: Name, limit: int, offset: int) -> tuple[list[CatalogRun], int]:
        """Return the runs of a job, latest start first, and their number; runs without events last."""
        total = self.reader.count_runs(name)
        records = self.reader.runs_of_job(name, limit, offset, with_facets=True)
        records += self.reader.referenced_runs_of_job(name, limit - len(records), max(0, offset - total))
        rows = {row.run_uuid: row for row in records}
        runs = load_run_io(self.reader, rows, self._versions)
        return list(runs.values()), total + self.reader.count_referenced_runs(name)

    def runs(self, run_uuids: Collection[str]) -> dict[str, CatalogRun]:
        """Return runs by id."""
        return load_runs(self.reader, run_uuids, self._versions)

    def run(self, run_uuid: str) -> CatalogRun | None:
        """Return a run."""
        return self.runs([run_uuid]).get(run_uuid)

    def run_facets(self, run_uuid: str, kind: str) -> Facets | None:
        """Return the facets of a run or of its job (`kind`); None if the run is unknown."""
        own = self.reader.facets_of([("run", run_uuid)]).get(("run", run_uuid)) if kind == "run" else None
        if own is not None:
            return own
        run = self.reader.runs_of([run_uuid]).get(run_uuid)
        if run is None:
            return None
        key = "job", entity_key(run.job_namespace, run.job_name)
        return {} if kind == "run" else self.reader.facets_of([key]).get(key, {})

    def datasets(self, namespace: str, limit: int, offset: int) -> tuple[list[CatalogDataset], int]:
        """Return the datasets of a namespace by name, and their number."""
        datasets = EntityFilter(namespace, hidden=self._hidden("dataset"))
        rows, total = self.reader.entity_page("datasets", datasets, "name", limit, offset)
        return self.datasets_by_name([(row["namespace"], row["name"]) for row in rows]), total

    def dataset(self, name: Name) -> CatalogDataset | None:
        """Return a dataset by any of its names; None if it is unknown or hidden."""
        datasets = [] if self._is_hidden("dataset", name) else self.datasets_by_name([name])
        return datasets[0] if datasets else None

    def datasets_by_name(self, names: Iterable[Name]) -> list[CatalogDataset]:
        """Return datasets by name."""
        aliases = {name: self.aliases_of(name) for name in names}
        return load_datasets(self.reader, aliases, self._versions, self.annotations, self._column_sources)

    def aliases_of(self, name: Name) -> tuple[Name, ...]:
        """Return all names of a dataset, the canonical one first."""
        return self._aliases.get(name, (name,))

    def dataset_versions(self, name: Name, limit: int, offset: int) -> tuple[list[DatasetVersion], int]:
        """Return the versions of a dataset, newest first, and their number."""
        records = self._versions.get(name)
        return self._load_versions(name, records[::-1][offset : offset + limit]), len(records)

    def dataset_version(self, name: Name, version: str) -> DatasetVersion | None:
        """Return a version of a dataset by its id or by the producer's name for it."""
        record = self._versions.find(name, version) or self._find_imported_version(name, version)
        return None if record is None else self._load_versions(name, [record])[0]

    def _find_imported_version(self, name: Name, version: str) -> VersionRecord | None:
        """Return a version by its id in a catalog that was imported: the one that the same run wrote."""
        alias = None if self._alias_store is None else self._alias_store.find_version(version)
        if alias is None or (alias.namespace, alias.name) not in self.aliases_of(name):
            return None
        return next((record for record in self._versions.get(name)[::-1] if record.run_uuid == alias.run_uuid), None)

    def _load_versions(self, name: Name, records: Collection[VersionRecord]) -> list[DatasetVersion]:
        aliases = self.aliases_of(name)
        return load_dataset_versions(self.reader, self._versions, self.annotations, name, aliases, records)

    def job_summaries(self, names: Collection[Name]) -> list[CatalogJob]:
        """Return visible jobs by name, without earlier runs."""
        visible = self._visible("job", names)
        return load_jobs(self.reader, visible, self._versions, self.annotations, latest_runs=0)

    def dataset_summaries(self, names: Collection[Name]) -> list[CatalogDataset]:
        """Return visible datasets by name, without column sources."""
        aliases = {name: self.aliases_of(name) for name in self._visible("dataset", names)}
        return load_datasets(self.reader, aliases, self._versions, self.annotations)

    def fields_of(self, names: Collection[Name]) -> dict[Name, tuple[str | None, dict[str, str | None]]]:
        """Return the current version and the field types of datasets."""
        return {
            (dataset.namespace, dataset.name): (
                None if dataset.current_version is None else dataset.current_version.id,
                {field.name: field.type for field in dataset.fields},
            )
            for dataset in self.dataset_summaries(names)
        }

    def last_writers(self, names: Collection[Name]) -> dict[Name, CatalogRun]:
        """Return the runs that wrote the current versions of datasets."""
        self._versions.load(names)
        current = {name: self._versions.current(name) for name in names}
        writers = {name: version.run_uuid for name, version in current.items() if version and version.run_uuid}
        runs = self.runs(set(writers.values()))
        return {name: runs[run_uuid] for name, run_uuid in writers.items() if run_uuid in runs}

    def runs_upstream(self, run_uuid: str, depth: int) -> list[UpstreamRun]:
        """Return a run and its upstream runs, nearest first; none if the run is unknown."""
        if self.reader.run(run_uuid) is None:
            return []
        traversal = traverse_runs(
            self.reader, run_uuid, depth=depth, limit=MAX_NEIGHBOURHOOD_NODES, include_children=False
        )
        names = [visited.run.run_uuid for visited in traversal.runs]
        writers = {(edge.reader, edge.dataset, edge.version): edge.writer for edge in traversal.edges}
        runs = self.runs(names)
        return [
            UpstreamRun(
                runs[name],
                tuple(
                    writers.get((name, DatasetName(item.namespace, item.name), item.version))
                    for item in runs[name].inputs
                ),
            )
            for name in names
        ]

    @property
    def has_unindexed(self) -> bool:
        """True if some annotations are not in the index yet."""
        return not self._unindexed.is_empty

    def search_names(
        self, kind: str, text: str, namespace: str | None, after: datetime, before: datetime
    ) -> list[tuple[Node, datetime | None]]:
        """Return the jobs or datasets with a text in their names, by name, and their last events."""
        is_job, visible = kind == "job", EntityFilter(namespace, hidden=self._hidden(kind))
        time_range = to_epoch_micros(after), to_epoch_micros(before)
        rows = self.reader.search_names("all_jobs" if is_job else "datasets", text, visible, time_range)
        return [
            (
                Node("job" if is_job else "dataset", row["namespace"], row["name"]),
                from_epoch_micros(row["last_event_at"]),
            )
            for row in rows
        ]

    def events(
        self, log: Path, after: datetime, before: datetime, limit: int, offset: int, *, is_newest_first: bool
    ) -> tuple[list[Raw], int]:
        """Return run events by event time, byte for byte as received, and their total count."""
        first_position, time_range = first_log_position(log), (to_epoch_micros(after), to_epoch_micros(before))
        mask = self.reader.mask
        if mask is not None:
            events = [event for event in self._visible_run_events(mask, *time_range) if event.seq >= first_position]
            events.sort(key=lambda event: (event.event_time, event.seq), reverse=is_newest_first)
            bodies = read_events(log, [event.seq for event in events[offset : offset + limit]])
            return [Raw(mask.mask_json(bytes(body))) for body in bodies], len(events)
        positions = self.reader.run_events(*time_range, first_position, limit, offset, is_newest_first=is_newest_first)
        return list(read_events(log, positions)), self.reader.count_run_events(*time_range, first_position)

    def event_counts(self, intervals: Sequence[Interval]) -> list[EventCount]:
        """Count run events by type in consecutive intervals."""
        time_range = to_epoch_micros(intervals[0].start), to_epoch_micros(intervals[-1].end)
        mask = self.reader.mask
        if mask is None:
            events = ((row["event_time"], row["event_type"]) for row in self.reader.event_types(*time_range))
        else:
            events = ((event.event_time, event.event_type) for event in self._visible_run_events(mask, *time_range))
        return count_events(events, intervals)

    def _visible_run_events(self, mask: NameMask, after: int, before: int) -> list[RunEvent]:
        """Return the run events of visible jobs in a time range; the index has them without namespaces."""
        if self._lake is None:
            return []
        # Imported here: Delta loads slowly, and only limited keys need it.
        from clew.lake.history import list_run_events

        return [event for event in list_run_events(self._lake, mask.prefixes) if after <= event.event_time < before]

    def entity_counts(self, kind: str, intervals: Sequence[Interval]) -> list[EntityCount]:
        """Count the jobs, datasets or sources that existed at the end of each interval."""
        if kind == "source":
            created = [source.created_at for source in self.sources() if source.created_at is not None]
            return count_before_end(sorted(map(to_epoch_micros, created)), intervals)
        times = self.reader.first_event_times(kind, to_epoch_micros(intervals[-1].end))
        return count_before_end(times, intervals)

    def _hidden(self, kind: str) -> list[HiddenUntil]:
        hidden = self.annotations.hidden(kind)
        return [_HIDDEN_ANNOTATIONS, *hidden] if kind == "dataset" else hidden

    def _visible(self, kind: str, names: Collection[Name]) -> list[Name]:
        hidden = {(entity.namespace, entity.name) for entity in self._hidden(kind)}
        return [
            name
            for name in names
            if (name not in hidden and (name[0], None) not in hidden) or not self._is_hidden(kind, name)
        ]

    def _is_hidden(self, kind: str, name: Name) -> bool:
        namespace, own_name = name
        hidden_at = [
            entity.seq
            for entity in self._hidden(kind)
            if entity.namespace == namespace and entity.name in (own_name, None)
        ]
        return bool(hidden_at) and max(hidden_at) >= (self.reader.last_event_seq(kind, *name) or 0)
