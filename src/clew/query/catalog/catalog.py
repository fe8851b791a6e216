"""Every question about what there is, answered from one index as it is now."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from msgspec import Raw, Struct

from clew.errors import ClewError
from clew.events.timestamps import microseconds
from clew.home import Place
from clew.index.catalog import CatalogReader, Hidden
from clew.index.keys import entity
from clew.index.notes import NAME, NAMESPACE
from clew.query.catalog.datasets import Lineage, dataset_versions, datasets_of
from clew.query.catalog.jobs import job_versions, jobs_of
from clew.query.catalog.model import (
    Dataset,
    DatasetVersion,
    Facets,
    Job,
    JobVersion,
    Name,
    Namespace,
    Run,
    Source,
    Tag,
)
from clew.query.catalog.notes import Notes
from clew.query.catalog.raw_events import events_at, first_position
from clew.query.catalog.runs import runs_of
from clew.query.catalog.spaces import Sources, namespaces
from clew.query.catalog.stats import EntityCount, EventCount, Interval, entity_counts, event_counts
from clew.query.catalog.surroundings import UpstreamRun, runs_upstream
from clew.query.catalog.versions import Versions
from clew.query.moments import moment

# Readers of a WAL wait for no writer; whoever has locked the whole file is not waited for long.
_BUSY_SECONDS = 0.25
# Documents stand all over a file: to read a page costs more than to look at it where the system holds it.
_MAPPED = f"pragma mmap_size = {256 << 20}"
_NOTES = Hidden(NAMESPACE, NAME, 2**63 - 1)


class Match(Struct, frozen=True):
    """A job or a dataset that was found."""

    kind: str
    namespace: str
    name: str
    updated_at: datetime | None


class PendingNotes:
    """Notes that are in the log and not in the index yet: who took them can read them at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, tuple[tuple[str, bytes], ...]]] = []

    def add(self, event_id: str, notes: Iterable[tuple[str, bytes]]) -> None:
        """Take notes that were stored with an event."""
        with self._lock:
            self._waiting.append((event_id, tuple(notes)))

    def beyond(self, reader: CatalogReader) -> list[tuple[str, bytes]]:
        """The notes that an index lacks, in the order in which they were taken."""
        with self._lock:
            self._waiting = [one for one in self._waiting if not reader.has_event(one[0])]
            return [note for _, notes in self._waiting for note in notes]

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._waiting


class Catalog:
    """Answers from one index, for one thread. What it remembers it forgets when the index is written."""

    def __init__(self, reader: CatalogReader, pending: PendingNotes, log: Path) -> None:
        self.reader = reader
        self._pending = pending
        self._log = log
        self._change: object = None
        self._identity: str | None = None
        self._notes: Notes | None = None

    def refresh(self) -> None:
        """Look whether the index was written since."""
        change = self.reader.change()
        if change != self._change:
            self._change, self._notes = change, None
            self._keep_what_stays(self.reader.progress().identity)
            self._lineage.forget()
            self._symlinked = self.reader.symlinked()
            self._versions = Versions(self.reader, self._symlinked)

    def _keep_what_stays(self, identity: str) -> None:
        """What is remembered of an index is forgotten when another has taken its place."""
        if identity != self._identity:
            self._identity = identity
            self._sources, self._lineage = Sources(), Lineage(self.reader)

    @property
    def notes(self) -> Notes:
        """What people noted."""
        if self._notes is None or not self._pending.is_empty:
            stored = self.reader.stored_facets("dataset", NAMESPACE, NAME, None)
            self._notes = Notes(stored, self._pending.beyond(self.reader))
        return self._notes

    def forget_notes(self) -> None:
        """Read the notes again: one was taken."""
        self._notes = None

    def namespaces(self) -> list[Namespace]:
        """All namespaces by name, those that are hidden included."""
        return namespaces(self.reader, self.notes)

    def has_namespace(self, name: str) -> bool:
        """Whether events speak of a namespace, or someone made it."""
        return self.reader.has_namespace(name) or name in self.notes.namespaces()

    def sources(self) -> list[Source]:
        """All sources by name."""
        return self._sources.all(self.reader, self.notes)

    def tags(self) -> list[Tag]:
        """Tags by name."""
        return self.notes.tag_names()

    def jobs(self, namespace: str | None, states: Collection[str] | None, limit: int, offset: int) -> list[Job]:
        """Jobs, the last changed first, by the states of their last runs."""
        return self.jobs_named(self.reader.job_names(namespace, self._hidden("job"), states, limit, offset))

    def count_jobs(self, namespace: str | None, states: Collection[str] | None) -> int:
        """How many jobs there are to list."""
        return self.reader.count_jobs(namespace, self._hidden("job"), states)

    def job(self, name: Name) -> Job | None:
        """One job."""
        found = [] if self._is_hidden("job", name) else self.jobs_named([name])
        return found[0] if found else None

    def jobs_named(self, names: Collection[Name]) -> list[Job]:
        """Jobs by their names."""
        return jobs_of(self.reader, self._versions, self.notes, names)

    def job_versions(self, name: Name) -> list[JobVersion]:
        """The versions of a job, the last made first."""
        return job_versions(self.reader, self._versions, name)

    def runs_of_job(self, name: Name, limit: int, offset: int) -> list[Run]:
        """The runs of a job, the last started first."""
        ids = self.reader.runs_of_job(*name, limit, offset)
        found = self.runs(ids)
        return [found[one] for one in ids]

    def count_runs(self, name: Name) -> int:
        """How many runs a job has had."""
        return self.reader.count_runs(*name)

    def runs(self, run_uuids: Collection[str]) -> dict[str, Run]:
        """Runs by their ids."""
        return runs_of(self.reader, self._versions, run_uuids)

    def run(self, run_uuid: str) -> Run | None:
        """One run."""
        return self.runs([run_uuid]).get(run_uuid)

    def run_facets(self, run_uuid: str, kind: str) -> Facets | None:
        """The facets of a run, or of the job that it is of; None if there is no such run."""
        own = self.reader.facets_of([("run", run_uuid)]).get(("run", run_uuid)) if kind == "run" else None
        if own is not None:
            return own
        run = self.reader.runs_of([run_uuid]).get(run_uuid)
        if run is None:
            return None
        key = "job", entity(run.job_namespace, run.job_name)
        return {} if kind == "run" else self.reader.facets_of([key]).get(key, {})

    def datasets(self, namespace: str, limit: int, offset: int) -> list[Dataset]:
        """The datasets of a namespace by name."""
        return self.datasets_named(self.reader.dataset_names(namespace, self._hidden("dataset"), limit, offset))

    def count_datasets(self, namespace: str) -> int:
        """How many datasets there are to list."""
        return self.reader.count_datasets(namespace, self._hidden("dataset"))

    def dataset(self, name: Name) -> Dataset | None:
        """One dataset, by whichever of its names."""
        found = [] if self._is_hidden("dataset", name) else self.datasets_named([name])
        return found[0] if found else None

    def datasets_named(self, names: Iterable[Name]) -> list[Dataset]:
        """Datasets by their names."""
        wanted = {name: self.names_of(name) for name in names}
        return datasets_of(self.reader, self._versions, self.notes, self._lineage, wanted)

    def names_of(self, name: Name) -> tuple[Name, ...]:
        """All names of a dataset, that of its node first."""
        return self._symlinked.get(name, (name,))

    def dataset_versions(self, name: Name, limit: int, offset: int) -> list[DatasetVersion]:
        """The versions of a dataset, the last made first."""
        chosen = self._versions.of(name)[::-1][offset : offset + limit]
        return dataset_versions(self.reader, self._versions, self.notes, name, self.names_of(name), chosen)

    def count_dataset_versions(self, name: Name) -> int:
        """How many versions a dataset has."""
        return len(self._versions.of(name))

    def dataset_version(self, name: Name, version: str) -> DatasetVersion | None:
        """One version of a dataset."""
        found = self._versions.find(name, version)
        if found is None:
            return None
        return dataset_versions(self.reader, self._versions, self.notes, name, self.names_of(name), [found])[0]

    def jobs_in_graphs(self, names: Collection[Name]) -> list[Job]:
        """Jobs by their names without those that are not shown, and without their earlier runs."""
        shown = self._shown("job", names)
        return jobs_of(self.reader, self._versions, self.notes, shown, latest_runs=0)

    def datasets_in_graphs(self, names: Collection[Name]) -> list[Dataset]:
        """Datasets by their names without those that are not shown, and without where their columns come from."""
        wanted = {name: self.names_of(name) for name in self._shown("dataset", names)}
        return datasets_of(self.reader, self._versions, self.notes, None, wanted)

    def fields_of(self, names: Collection[Name]) -> dict[Name, tuple[str | None, dict[str, str | None]]]:
        """The current version and the types of the fields of datasets."""
        found = self.datasets_in_graphs(names)
        return {
            (one.namespace, one.name): (one.current_version, {field.name: field.type for field in one.fields})
            for one in found
        }

    def last_writers(self, names: Collection[Name]) -> dict[Name, Run]:
        """The runs that made the current versions of datasets."""
        self._versions.load(names)
        current = {name: self._versions.current(name) for name in names}
        made_by = {name: version.run_uuid for name, version in current.items() if version and version.run_uuid}
        runs = self.runs(set(made_by.values()))
        return {name: runs[run_uuid] for name, run_uuid in made_by.items() if run_uuid in runs}

    def runs_upstream(self, run_uuid: str, depth: int) -> list[UpstreamRun]:
        """A run and those that led to it, the nearest first."""
        return runs_upstream(self.reader, self._versions, run_uuid, depth)

    @property
    def has_pending(self) -> bool:
        """Whether some notes are not in the index yet."""
        return not self._pending.is_empty

    def named_like(self, kind: str, text: str, namespace: str | None, after: datetime, before: datetime) -> list[Match]:
        """Jobs or datasets whose names hold a text, by name."""
        span = microseconds(after), microseconds(before)
        rows = self.reader.named_like(kind, text, namespace, self._hidden(kind), span)
        return [Match(kind, row["namespace"], row["name"], moment(row["last_event_at"])) for row in rows]

    def events(
        self, after: datetime, before: datetime, limit: int, offset: int, *, last_first: bool
    ) -> tuple[list[Raw], int]:
        """Events of runs by their own times, as they were received, and how many there are in all."""
        since, span = first_position(self._log), (microseconds(after), microseconds(before))
        positions = self.reader.run_events(*span, since, limit, offset, last_first=last_first)
        return list(events_at(self._log, positions)), self.reader.count_run_events(*span, since)

    def event_counts(self, intervals: Sequence[Interval]) -> list[EventCount]:
        """Events of runs by type and time."""
        return event_counts(self.reader, intervals)

    def entity_counts(self, kind: str, intervals: Sequence[Interval]) -> list[EntityCount]:
        """How many jobs or datasets there were in time."""
        return entity_counts(self.reader, kind, intervals)

    def _hidden(self, kind: str) -> list[Hidden]:
        hidden = self.notes.hidden(kind)
        return [_NOTES, *hidden] if kind == "dataset" else hidden

    def _shown(self, kind: str, names: Collection[Name]) -> list[Name]:
        hidden = {(one.namespace, one.name) for one in self._hidden(kind)}
        return [
            name
            for name in names
            if (name not in hidden and (name[0], None) not in hidden) or not self._is_hidden(kind, name)
        ]

    def _is_hidden(self, kind: str, name: Name) -> bool:
        space, own = name
        since = [one.seq for one in self._hidden(kind) if one.namespace == space and one.name in (own, None)]
        return bool(since) and max(since) >= (self.reader.last_told(kind, *name) or 0)


class Catalogs:
    """A catalogue for each thread that asks, over whatever index is at a path by then."""

    def __init__(self, index: Place, log: Path) -> None:
        self.pending = PendingNotes()
        self._index = index
        self._log = log
        self._own = threading.local()
        self._lock = threading.Lock()
        self._readers: set[CatalogReader] = set()

    def close(self) -> None:
        """Let go of the index, whichever thread has opened it."""
        with self._lock:
            readers, self._readers = self._readers, set()
        for reader in readers:
            reader.close()

    @contextmanager
    def opened(self) -> Iterator[Catalog]:
        """The catalogue for one question, which sees one state of the index. It is opened anew when it was replaced."""
        catalog = self._current()
        try:
            with catalog.reader.snapshot():
                catalog.refresh()
                yield catalog
        except sqlite3.DatabaseError as fault:
            self._close()
            hint = "Ask again in a moment. If it stays so, look at what else has the file open, or rebuild the index."
            raise ClewError(f"The index {self._index} cannot be read now: {fault}.", hint=hint) from fault

    def _current(self) -> Catalog:
        identity = self._identity()
        catalog: Catalog | None = getattr(self._own, "catalog", None)
        if catalog is not None and self._own.identity == identity:
            return catalog
        self._close()
        reader = CatalogReader(self._index, busy_seconds=_BUSY_SECONDS)
        if isinstance(self._index, Path):
            reader.ask(_MAPPED)
        with self._lock:
            self._readers.add(reader)
        opened = Catalog(reader, self.pending, self._log)
        self._own.catalog, self._own.identity = opened, identity
        return opened

    def _identity(self) -> tuple[int, int] | None:
        """Which file it is: an index that is built anew takes the place of the one before. A database stays."""
        if not isinstance(self._index, Path):
            return 0, 0
        try:
            file = self._index.stat()
        except OSError:
            return None
        return file.st_dev, file.st_ino

    def _close(self) -> None:
        catalog: Catalog | None = getattr(self._own, "catalog", None)
        if catalog is not None:
            self._own.catalog = None
            with self._lock:
                self._readers.discard(catalog.reader)
            catalog.reader.close()
