"""Datasets, and the inputs and outputs of runs and jobs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache

from clew.events.lifecycle import LIFECYCLE_FACET as LIFECYCLE
from clew.events.lifecycle import LifecycleChange, parse_lifecycle_change
from clew.events.nodes import Name
from clew.events.openlineage import Dataset, Facets
from clew.events.symlinks import SYMLINKS_FACET as SYMLINKS
from clew.events.symlinks import parse_symlinks
from clew.index.changes import DatasetRow, JobEdgeRow, RenameRow, RunIoRow, SymlinksRow
from clew.index.observing.contents import IoStatsCollector, RunIoKey, SchemaCollector
from clew.index.observing.greatest import max_or_none
from clew.index.observing.sighting import EventContext, extend_range
from clew.index.observing.turns import EventPrecedence


class DatasetCollector:
    """Collect datasets, renames and symlinks, merged event by event."""

    def __init__(self, precedence: EventPrecedence) -> None:
        self._precedence = precedence
        self._datasets: dict[Name, DatasetRow] = {}
        self._renames: dict[Name, RenameRow] = {}
        self._symlinks: dict[Name, SymlinksRow] = {}

    def add(self, namespace: str, name: str, context: EventContext) -> None:
        """Add an event that references a dataset."""
        key = namespace, name
        existing = self._datasets.get(key)
        if existing is None:
            self._datasets[key] = DatasetRow(
                namespace, name, context.event_time, context.event_time, context.seq, context.seq
            )
        else:
            extend_range(existing, context)

    def add_facets(self, dataset: Dataset, facets: Facets, context: EventContext) -> None:
        """Add the symlinks and the lifecycle change of a dataset; call `add` first."""
        if SYMLINKS in facets:
            self._add_symlinks((dataset.namespace, dataset.name), bytes(facets[SYMLINKS]), context)
        change = parse_lifecycle_change(bytes(facets[LIFECYCLE])) if LIFECYCLE in facets else None
        if change is not None:
            self._add_lifecycle_change(self._datasets[dataset.namespace, dataset.name], change, context)

    def add_write(self, dataset: Dataset, context: EventContext) -> None:
        """Add a write of a dataset; call `add` first."""
        row = self._datasets[dataset.namespace, dataset.name]
        if row.written_at is None or context.event_time >= row.written_at:
            row.written_at, row.written_seq = context.event_time, context.seq

    def _add_symlinks(self, key: Name, facet: bytes, context: EventContext) -> None:
        existing = self._symlinks.get(key)
        if existing is None or self._precedence.supersedes(context, existing.last_seq):
            self._symlinks[key] = SymlinksRow(*key, _to_json(parse_symlinks(facet)), context.seq)

    def _add_lifecycle_change(self, row: DatasetRow, change: LifecycleChange, context: EventContext) -> None:
        if row.lifecycle_at is None or context.event_time >= row.lifecycle_at:
            row.lifecycle_state, row.renamed_from_namespace, row.renamed_from_name = change
            row.lifecycle_at, row.lifecycle_seq = context.event_time, context.seq
        if change.previous is not None and change.previous != (row.namespace, row.name):
            existing = self._renames.get(change.previous)
            if existing is None or context.event_time >= existing.renamed_at:
                rename = RenameRow(*change.previous, row.namespace, row.name, context.event_time, context.seq)
                self._renames[change.previous] = rename

    def rows(self) -> Iterable[DatasetRow]:
        """Return the rows of all datasets."""
        return self._datasets.values()

    def renames(self) -> Iterable[RenameRow]:
        """Return the renames of datasets."""
        return self._renames.values()

    def symlinks(self) -> Iterable[SymlinksRow]:
        """Return the symlinks of datasets."""
        return self._symlinks.values()


@lru_cache
def _to_json(names: tuple[Name, ...]) -> str:
    return json.dumps(names)


class IoCollector:
    """Collect inputs and outputs per run and per job."""

    def __init__(self, schemas: SchemaCollector, precedence: EventPrecedence) -> None:
        self._schemas = schemas
        self._precedence = precedence
        self._io_stats = IoStatsCollector(schemas, precedence)
        self._run_io: dict[RunIoKey, RunIoRow] = {}
        self._job_edges: dict[tuple[str, ...], JobEdgeRow] = {}

    def add(self, direction: str, dataset: Dataset, version: str | None, context: EventContext) -> None:
        """Add an input or output of an event."""
        run_uuid, seq = context.run_uuid, context.seq
        if run_uuid is not None:
            key = run_uuid, direction, dataset.namespace, dataset.name, version or ""
            existing = self._run_io.get(key)
            if existing is None or existing.is_implied:
                existing = self._run_io[key] = RunIoRow(*key, *context.job, context.event.session_id, seq)
            else:
                existing.last_seq = seq
                _merge_context(existing, context)
            self._io_stats.add(key, existing, dataset, context)
        elif dataset.facets:
            self._schemas.add(dataset.facets)
        job = context.event.job
        if job is not None:
            self._add_job_edge((job.namespace, job.name, direction, dataset.namespace, dataset.name), context)

    def add_implied_input(self, source: Name, context: EventContext) -> None:
        """Add an input that only the event's lineage mentions."""
        run_uuid = context.run_uuid
        if run_uuid is not None:
            key = run_uuid, "INPUT", *source, ""
            row = RunIoRow(*key, *context.job, context.event.session_id, context.seq, is_implied=True)
            existing = self._run_io.setdefault(key, row)
            if existing is not row and existing.is_implied:
                existing.last_seq = context.seq
                _merge_context(existing, context)
        job = context.event.job
        if job is not None:
            self.add_job_edge((job.namespace, job.name), "INPUT", source, context)

    def add_job_edge(self, job: Name, direction: str, dataset: Name, context: EventContext) -> None:
        """Add an input or output of a job that only lineage mentions."""
        self._add_job_edge((*job, direction, *dataset), context, is_implied=True)

    def _add_job_edge(
        self, key: tuple[str, str, str, str, str], context: EventContext, *, is_implied: bool = False
    ) -> None:
        existing = self._job_edges.get(key)
        at, seq, is_declared = context.event_time, context.seq, _is_declared(key[:2], context)
        if existing is None:
            declared_seq = seq if is_declared else None
            self._job_edges[key] = JobEdgeRow(
                *key, context.run_uuid, at, at, seq, seq, is_implied, declared_seq, not is_declared
            )
            return
        extend_range(existing, context)
        existing.last_run_uuid = context.run_uuid
        existing.is_implied = existing.is_implied and is_implied
        if not is_declared:
            existing.is_observed = True
        elif existing.declared_seq is None or self._precedence.supersedes(context, existing.declared_seq):
            existing.declared_seq = seq

    def run_io(self) -> Iterable[RunIoRow]:
        """Return the inputs and outputs of runs."""
        self._io_stats.assign_schema_ids(self._run_io)
        return self._run_io.values()

    def job_edges(self) -> Iterable[JobEdgeRow]:
        """Return the inputs and outputs of jobs."""
        return self._job_edges.values()


def _is_declared(job: Name, context: EventContext) -> bool:
    """Return True if the event is a JobEvent that declares the inputs and outputs of this job."""
    event = context.event
    return (
        context.run_uuid is None
        and bool(event.inputs or event.outputs)
        and event.job is not None
        and (event.job.namespace, event.job.name) == job
    )


def _merge_context(row: RunIoRow, context: EventContext) -> None:
    """Merge job and session of another event, like `MERGE_SPECS`; they rarely differ."""
    namespace, name = context.job
    if namespace != row.job_namespace or name != row.job_name or context.event.session_id != row.session_id:
        row.job_namespace, row.job_name = max_or_none(row.job_namespace, namespace), max_or_none(row.job_name, name)
        row.session_id = max_or_none(row.session_id, context.event.session_id)
