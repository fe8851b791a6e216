"""Rows of datasets, inputs and outputs, schemas and facets."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from operator import itemgetter

from clew.events.facets import (
    LIFECYCLE_FACET,
    ROW_COUNT_FACETS,
    SYMLINKS_FACET,
    FacetOrder,
    LifecycleChange,
    Name,
    has_row_count,
    parse_lifecycle_change,
    parse_row_count,
    parse_schema,
    parse_symlinks,
)
from clew.events.openlineage import FACET_ALIASES, Dataset, Facets
from clew.index.changes import DatasetRow, FacetsRow, JobEdgeRow, RenameRow, RunIoRow, SchemaRow, SymlinksRow
from clew.index.encoding import FacetEncoder, StoredFacet
from clew.index.extract.context import EventContext, EventPrecedence, extend_range, max_or_none

_ROW_COUNT_FACETS = frozenset(ROW_COUNT_FACETS)
# Run, direction, namespace, name and version.
RunIoKey = tuple[str, str, str, str, str]


class SchemaCollector:
    """Collect distinct schemas."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def add(self, facets: Facets) -> str | None:
        """Add the schema of a dataset and return its id; None if it has no valid schema."""
        facet = facets.get("schema")
        schema = None if facet is None else parse_schema(bytes(facet))
        if schema is None:
            return None
        self._fields[schema.schema_id] = schema.fields
        return schema.schema_id

    def rows(self) -> Iterator[SchemaRow]:
        """Return the rows of all schemas."""
        return (SchemaRow(*schema) for schema in self._fields.items())


class IoStatsCollector:
    """Collect the last schema and row count of each input and output; schemas are parsed at the end."""

    def __init__(self, schemas: SchemaCollector, precedence: EventPrecedence) -> None:
        self._schemas = schemas
        self._precedence = precedence
        self._schema_facets: dict[RunIoKey, Facets] = {}

    def add(self, key: RunIoKey, row: RunIoRow, dataset: Dataset, context: EventContext) -> None:
        """Add the schema and row count that an event reports for an input or output."""
        facets = dataset.facets
        if facets:
            if "schema" in facets:
                self._add_schema(key, row, facets, context)
            if not _ROW_COUNT_FACETS.isdisjoint(facets):
                self._add_row_count(row, facets, context)
        # After the dataset facets: the row count of the run takes precedence.
        if dataset.input_facets:
            self._add_row_count(row, dataset.input_facets, context)
        if dataset.output_facets:
            self._add_row_count(row, dataset.output_facets, context)

    def _add_schema(self, key: RunIoKey, row: RunIoRow, facets: Facets, context: EventContext) -> None:
        if not self._precedence.supersedes(context, row.schema_seq):
            self._schemas.add(facets)
            return
        row.schema_seq = context.seq
        earlier = self._schema_facets.get(key)
        # Comparing is cheaper than hashing, and most events of a run repeat the schema.
        if earlier is not None and earlier["schema"] != facets["schema"]:
            self._schemas.add(earlier)
        self._schema_facets[key] = facets

    def _add_row_count(self, row: RunIoRow, facets: Facets, context: EventContext) -> None:
        for name, facet in facets.items():
            if (
                name in _ROW_COUNT_FACETS
                and has_row_count(body := bytes(facet))
                and self._precedence.supersedes(context, row.row_count_seq)
            ):
                row.row_count, row.row_count_seq = parse_row_count(body), context.seq

    def assign_schema_ids(self, rows: Mapping[RunIoKey, RunIoRow]) -> None:
        """Set the schema ids of all inputs and outputs."""
        for key, facets in self._schema_facets.items():
            rows[key].schema_id = self._schemas.add(facets)


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
        if SYMLINKS_FACET in facets:
            self._add_symlinks((dataset.namespace, dataset.name), bytes(facets[SYMLINKS_FACET]), context)
        change = parse_lifecycle_change(bytes(facets[LIFECYCLE_FACET])) if LIFECYCLE_FACET in facets else None
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


class FacetCollector:
    """Collect the facets of each entity with event time and position; they are merged at the end."""

    def __init__(self, dictionary: bytes | None, order: FacetOrder = FacetOrder.RECEIVED) -> None:
        self._encoder = FacetEncoder(dictionary)
        self._is_by_time = order is FacetOrder.EVENT_TIME
        self._facets: defaultdict[tuple[str, str], list[tuple[int, int, Facets]]] = defaultdict(list)

    def add(self, kind: str, key: str, facets: Facets | None, context: EventContext) -> None:
        """Add the facets of an entity in one event."""
        if facets:
            self._facets[kind, key].append((context.event_time, context.seq, facets))

    def rows(self) -> Iterator[FacetsRow]:
        """Yield one row per entity."""
        encode = self._encoder.encode
        for (kind, key), history in self._facets.items():
            last_seq = history[-1][1]
            if self._is_by_time:
                history.sort(key=itemgetter(0))
            yield FacetsRow(kind, key, last_seq, encode(_latest_facets(history)))


def _latest_facets(history: list[tuple[int, int, Facets]]) -> list[StoredFacet]:
    latest: dict[str, StoredFacet] = {}
    for event_time, seq, facets in reversed(history):
        # Usually the last event repeats all facets of earlier ones.
        if facets.keys() <= latest.keys():
            continue
        for name, facet in reversed(facets.items()):
            canonical_name = FACET_ALIASES.get(name, name)
            if canonical_name not in latest:
                latest[canonical_name] = StoredFacet.of(canonical_name, seq, event_time, bytes(facet))
    return list(latest.values())
