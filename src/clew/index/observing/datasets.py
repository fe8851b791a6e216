"""Datasets, and what runs and jobs read and write."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from clew.events.lifecycle import FACET as LIFECYCLE
from clew.events.lifecycle import LifecycleChange, lifecycle_change_of
from clew.events.nodes import Name
from clew.events.openlineage import Dataset, Facets
from clew.events.symlinks import FACET as SYMLINKS
from clew.events.symlinks import identifiers_of
from clew.index.changes import DatasetRow, JobEdgeRow, RenameRow, RunIoRow, SymlinksRow
from clew.index.observing.contents import RunIoKey, SeenContents, SeenSchemas
from clew.index.observing.greatest import greatest
from clew.index.observing.sighting import Sighting, widen
from clew.index.observing.turns import Turns


class SeenDatasets:
    """One row per dataset, merged as events come; what they were renamed from, and their other names."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._datasets: dict[Name, DatasetRow] = {}
        self._renames: dict[Name, RenameRow] = {}
        self._symlinks: dict[Name, SymlinksRow] = {}

    def note(self, namespace: str, name: str, sighting: Sighting) -> None:
        """Take an event that names a dataset."""
        key = namespace, name
        known = self._datasets.get(key)
        if known is None:
            self._datasets[key] = DatasetRow(namespace, name, sighting.at, sighting.at, sighting.seq, sighting.seq)
        else:
            widen(known, sighting)

    def note_facets(self, dataset: Dataset, facets: Facets, sighting: Sighting) -> None:
        """Take what a dataset's facets say of its names and of what became of it; the dataset was noted before."""
        if SYMLINKS in facets:
            self._note_symlinks((dataset.namespace, dataset.name), bytes(facets[SYMLINKS]), sighting)
        change = lifecycle_change_of(bytes(facets[LIFECYCLE])) if LIFECYCLE in facets else None
        if change is not None:
            self._note_change(self._datasets[dataset.namespace, dataset.name], change, sighting)

    def note_write(self, dataset: Dataset, sighting: Sighting) -> None:
        """Take an output; it was noted before."""
        row = self._datasets[dataset.namespace, dataset.name]
        if row.written_at is None or sighting.at >= row.written_at:
            row.written_at, row.written_seq = sighting.at, sighting.seq

    def _note_symlinks(self, key: Name, facet: bytes, sighting: Sighting) -> None:
        known = self._symlinks.get(key)
        if known is None or self._turns.is_last(sighting, known.last_seq):
            self._symlinks[key] = SymlinksRow(*key, _listed(identifiers_of(facet)), sighting.seq)

    def _note_change(self, row: DatasetRow, change: LifecycleChange, sighting: Sighting) -> None:
        if row.lifecycle_at is None or sighting.at >= row.lifecycle_at:
            row.lifecycle_state, row.renamed_from_namespace, row.renamed_from_name = change
            row.lifecycle_at, row.lifecycle_seq = sighting.at, sighting.seq
        if change.previous is not None and change.previous != (row.namespace, row.name):
            known = self._renames.get(change.previous)
            if known is None or sighting.at >= known.renamed_at:
                rename = RenameRow(*change.previous, row.namespace, row.name, sighting.at, sighting.seq)
                self._renames[change.previous] = rename

    def rows(self) -> Iterable[DatasetRow]:
        """All datasets seen."""
        return self._datasets.values()

    def renames(self) -> Iterable[RenameRow]:
        """What datasets are called since they were renamed."""
        return self._renames.values()

    def symlinks(self) -> Iterable[SymlinksRow]:
        """The other names that datasets bear."""
        return self._symlinks.values()


@lru_cache
def _listed(names: tuple[Name, ...]) -> str:
    return json.dumps(names)


class SeenReadsAndWrites:
    """One row per run, direction and dataset, and one per job, direction and dataset."""

    def __init__(self, schemas: SeenSchemas, turns: Turns) -> None:
        self._schemas = schemas
        self._turns = turns
        self._contents = SeenContents(schemas, turns)
        self._of_runs: dict[RunIoKey, RunIoRow] = {}
        self._of_jobs: dict[tuple[str, ...], JobEdgeRow] = {}

    def note(self, direction: str, dataset: Dataset, version: str | None, sighting: Sighting) -> None:
        """Take a dataset that an event names as input or output."""
        run_uuid, seq = sighting.run_uuid, sighting.seq
        if run_uuid is not None:
            key = run_uuid, direction, dataset.namespace, dataset.name, version or ""
            known = self._of_runs.get(key)
            if known is None or known.is_implied:
                known = self._of_runs[key] = RunIoRow(*key, *sighting.job, sighting.event.session_id, seq)
            else:
                known.last_seq = seq
                _note_context(known, sighting)
            self._contents.note(key, known, dataset, sighting)
        elif dataset.facets:
            self._schemas.note(dataset.facets)
        job = sighting.event.job
        if job is not None:
            self._note_job((job.namespace, job.name, direction, dataset.namespace, dataset.name), sighting)

    def note_implied(self, source: Name, sighting: Sighting) -> None:
        """Take an input that only the event's lineage names."""
        run_uuid = sighting.run_uuid
        if run_uuid is not None:
            key = run_uuid, "INPUT", *source, ""
            row = RunIoRow(*key, *sighting.job, sighting.event.session_id, sighting.seq, is_implied=True)
            known = self._of_runs.setdefault(key, row)
            if known is not row and known.is_implied:
                known.last_seq = sighting.seq
                _note_context(known, sighting)
        job = sighting.event.job
        if job is not None:
            self.note_job((job.namespace, job.name), "INPUT", source, sighting)

    def note_job(self, job: Name, direction: str, dataset: Name, sighting: Sighting) -> None:
        """Take a dataset that lineage says a job reads or writes."""
        self._note_job((*job, direction, *dataset), sighting, is_implied=True)

    def _note_job(self, key: tuple[str, str, str, str, str], sighting: Sighting, *, is_implied: bool = False) -> None:
        known = self._of_jobs.get(key)
        at, seq, is_declared = sighting.at, sighting.seq, _is_declared(key[:2], sighting)
        if known is None:
            declared_seq = seq if is_declared else None
            self._of_jobs[key] = JobEdgeRow(
                *key, sighting.run_uuid, at, at, seq, seq, is_implied, declared_seq, not is_declared
            )
            return
        widen(known, sighting)
        known.last_run_uuid = sighting.run_uuid
        known.is_implied = known.is_implied and is_implied
        if not is_declared:
            known.is_lasting = True
        elif known.declared_seq is None or self._turns.is_last(sighting, known.declared_seq):
            known.declared_seq = seq

    def of_runs(self) -> Iterable[RunIoRow]:
        """What runs read and wrote."""
        self._contents.settle(self._of_runs)
        return self._of_runs.values()

    def of_jobs(self) -> Iterable[JobEdgeRow]:
        """What jobs read and write."""
        return self._of_jobs.values()


def _is_declared(job: Name, sighting: Sighting) -> bool:
    """Whether an event is the job's own declaration of all that it reads and writes."""
    event = sighting.event
    return (
        sighting.run_uuid is None
        and bool(event.inputs or event.outputs)
        and event.job is not None
        and (event.job.namespace, event.job.name) == job
    )


def _note_context(row: RunIoRow, sighting: Sighting) -> None:
    """Merge the job and the session of one more event, as the index does; they are rarely another."""
    namespace, name = sighting.job
    if namespace != row.job_namespace or name != row.job_name or sighting.event.session_id != row.session_id:
        row.job_namespace, row.job_name = greatest(row.job_namespace, namespace), greatest(row.job_name, name)
        row.session_id = greatest(row.session_id, sighting.event.session_id)
