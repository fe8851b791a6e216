"""Rows of datasets, inputs and outputs, schemas and facets."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from operator import itemgetter

import msgspec

from clew.events.facets import (
    ASSERTIONS_FACET,
    LIFECYCLE_FACET,
    ROW_COUNT_FACETS,
    SYMLINKS_FACET,
    FacetOrder,
    Name,
    has_row_count,
    parse_description,
    parse_lifecycle_change,
    parse_quality_assertions,
    parse_row_count,
    parse_schema,
    parse_symlinks,
)
from clew.events.openlineage import FACET_ALIASES, Dataset, Facets
from clew.index.changes import (
    DatasetRow,
    EventContext,
    FacetsRow,
    JobEdgeRow,
    QualityAssertionsRow,
    RenameRow,
    RunIoRow,
    SchemaRow,
    SymlinksRow,
)
from clew.index.encoding import FacetEncoder, StoredFacet

_ROW_COUNT_FACETS = frozenset(ROW_COUNT_FACETS)


def schema_row(facets: Facets | None) -> SchemaRow | None:
    """Return the schema of a dataset; None if it has no valid schema."""
    facet = (facets or {}).get("schema")
    schema = None if facet is None else parse_schema(bytes(facet))
    return None if schema is None else SchemaRow(*schema)


def dataset_row(name: Name, context: EventContext) -> DatasetRow:
    """Return the row of a dataset that an event references."""
    return DatasetRow(*name, context.event_time, context.event_time, context.seq, context.seq)


def dataset_facet_rows(row: DatasetRow, facets: Facets, context: EventContext) -> Iterator[SymlinksRow | RenameRow]:
    """Yield the symlinks and the rename of a dataset, and set its lifecycle change."""
    at, seq = context.event_time, context.seq
    if "documentation" in facets:
        row.description = parse_description(bytes(facets["documentation"]))
        row.description_order_time, row.description_seq = context.order_time, seq
    if SYMLINKS_FACET in facets:
        identifiers = _to_json(parse_symlinks(bytes(facets[SYMLINKS_FACET])))
        yield SymlinksRow(row.namespace, row.name, identifiers, seq, context.order_time)
    change = parse_lifecycle_change(bytes(facets[LIFECYCLE_FACET])) if LIFECYCLE_FACET in facets else None
    if change is not None:
        row.lifecycle_state, row.renamed_from_namespace, row.renamed_from_name = change
        row.lifecycle_at, row.lifecycle_seq = at, seq
        if change.previous is not None and change.previous != (row.namespace, row.name):
            yield RenameRow(*change.previous, row.namespace, row.name, at, seq)


@lru_cache
def _to_json(names: tuple[Name, ...]) -> str:
    return json.dumps(names)


def quality_rows(dataset: Dataset, version: str | None, context: EventContext) -> Iterator[QualityAssertionsRow]:
    """Yield the test results in each kind of facets of a dataset."""
    kinds = (("DATASET", dataset.facets), ("INPUT", dataset.input_facets), ("OUTPUT", dataset.output_facets))
    for kind, facets in kinds:
        if facets and ASSERTIONS_FACET in facets:
            yield QualityAssertionsRow(
                context.asserted_by,
                dataset.namespace,
                dataset.name,
                kind,
                context.seq,
                context.event_time,
                context.run_uuid,
                *context.job,
                version,
                msgspec.json.encode(parse_quality_assertions(bytes(facets[ASSERTIONS_FACET]))).decode(),
                context.order_time,
            )


def run_io_row(
    direction: str, dataset: Dataset, version: str | None, schema_id: str | None, context: EventContext
) -> RunIoRow:
    """Return the row of an input or output that an event of a run lists."""
    row = _io_row(direction, (dataset.namespace, dataset.name), version, context)
    if dataset.facets and "schema" in dataset.facets:
        row.schema_id, row.schema_order_time, row.schema_seq = schema_id, context.order_time, context.seq
    # The row count of the run takes precedence over that of the dataset.
    for facets in (dataset.facets, dataset.input_facets, dataset.output_facets):
        if facets and not _ROW_COUNT_FACETS.isdisjoint(facets):
            _set_row_count(row, facets, context)
    return row


def implied_io_row(source: Name, context: EventContext) -> RunIoRow:
    """Return the row of an input that only the lineage of an event of a run mentions."""
    row = _io_row("INPUT", source, None, context)
    row.is_implied = True
    return row


def _io_row(direction: str, dataset: Name, version: str | None, context: EventContext) -> RunIoRow:
    key = context.run_uuid or "", direction, *dataset, version or ""
    return RunIoRow(*key, *context.job, context.event.session_id, context.seq, context.seq, context.event_time)


def _set_row_count(row: RunIoRow, facets: Facets, context: EventContext) -> None:
    for name, facet in facets.items():
        if name in _ROW_COUNT_FACETS and has_row_count(body := bytes(facet)):
            row.row_count, row.row_count_order_time, row.row_count_seq = (
                parse_row_count(body),
                context.order_time,
                context.seq,
            )


def job_edge_row(
    job: Name, direction: str, dataset: Name, context: EventContext, *, is_implied: bool = False
) -> JobEdgeRow:
    """Return the row of an input or output of a job; implied if only lineage mentions it."""
    at, seq = context.event_time, context.seq
    row = JobEdgeRow(*job, direction, *dataset, context.run_uuid, at, at, seq, seq, is_implied)
    if context.run_uuid is None and _declares(job, context):
        row.declared_at, row.declared_order_time, row.declared_seq = at, context.order_time, seq
        row.is_listed, row.is_observed = not is_implied, False
    return row


def _declares(job: Name, context: EventContext) -> bool:
    """Return True if the event is a JobEvent that declares the inputs and outputs of this job."""
    return bool(context.event.inputs or context.event.outputs) and context.job == job


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
