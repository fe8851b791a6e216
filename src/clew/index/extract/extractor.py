"""Extract the index rows of events, with or without facets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Any

from clew.events.facets import FacetOrder
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Dataset, Event, parse_dataset_version, without_facets
from clew.index.changes import ROW_TYPES, ChangeSet, EdgeRow, EventContext, RunEventRow, TableRow
from clew.index.encoding import dataset_key, entity_key, run_dataset_key
from clew.index.extract.datasets import (
    FacetCollector,
    dataset_facet_rows,
    dataset_row,
    job_edge_row,
    quality_rows,
    run_io_row,
    schema_row,
)
from clew.index.extract.lineage import EdgeSet, cell_row, lineage_rows, operation_row
from clew.index.extract.runs import (
    dataset_declaration_row,
    job_declaration_row,
    job_row,
    reference_rows,
    run_row,
)
from clew.index.merge_rules import MERGE_SPECS, Reducer, compile_reducer
from clew.index.writer import assign_job_versions

# Rows of these tables are distinct, or distinct by the id of their edge set.
_NOT_REDUCED = frozenset({"run_events", "edge_sets"})


def extract_rows(context: EventContext) -> Iterator[TableRow | EdgeSet]:
    """Yield the rows of an OpenLineage event; several rows may have the same key."""
    event = context.event
    if event.run is not None:
        yield RunEventRow(context.event_time, context.seq, (event.event_type or "").upper())
        yield run_row(event.run, context)
        yield from reference_rows(event.run, context)
    if event.job is not None:
        yield job_row(event.job, context)
        if event.run is None:
            yield job_declaration_row(event.job, context)
    for dataset in event.inputs or ():
        yield from _io_rows("INPUT", dataset, context)
    for dataset in event.outputs or ():
        yield from _io_rows("OUTPUT", dataset, context)
    if event.dataset is not None:
        yield from _subject_rows(event.dataset, context)
    yield from lineage_rows(context)


def _io_rows(direction: str, dataset: Dataset, context: EventContext) -> Iterator[TableRow]:
    """Yield the rows of an input or output."""
    name = dataset.namespace, dataset.name
    row = dataset_row(name, context)
    version = schema_id = None
    if dataset.facets:
        yield from dataset_facet_rows(row, dataset.facets, context)
        version = parse_dataset_version(dataset.facets)
        schema = schema_row(dataset.facets)
        if schema is not None:
            schema_id = schema.schema_id
            yield schema
    if direction == "OUTPUT":
        row.written_at, row.written_seq = context.event_time, context.seq
        row.current_version, row.current_version_seq = version or "", context.seq
    yield row
    yield from quality_rows(dataset, version, context)
    if context.run_uuid is not None:
        yield run_io_row(direction, dataset, version, schema_id, context)
    if context.event.job is not None:
        yield job_edge_row((context.event.job.namespace, context.event.job.name), direction, name, context)


def _subject_rows(dataset: Dataset, context: EventContext) -> Iterator[TableRow]:
    """Yield the rows of the dataset of a DatasetEvent."""
    row, schema = dataset_row((dataset.namespace, dataset.name), context), schema_row(dataset.facets)
    if dataset.facets:
        yield from dataset_facet_rows(row, dataset.facets, context)
    yield row
    if schema is not None:
        yield schema
    version = parse_dataset_version(dataset.facets)
    yield from quality_rows(dataset, version, context)
    if context.run_uuid is None:
        declaration = dataset_declaration_row(dataset, version, None if schema is None else schema.schema_id, context)
        if declaration is not None:
            yield declaration


@cache
def _reducers() -> dict[type[TableRow], tuple[str, Reducer]]:
    """Return the table and the compiled merge of each row type."""
    return {
        row_type: (table, compile_reducer(MERGE_SPECS[table], row_type))
        for table, row_type in ROW_TYPES.items()
        if table in MERGE_SPECS and table not in _NOT_REDUCED
    }


class ChangeExtractor:
    """Collect the changes of the events of one worker, reduced to one row per key."""

    def __init__(
        self,
        dictionary: bytes | None = None,
        order: FacetOrder = FacetOrder.RECEIVED,
        *,
        has_facets: bool = True,
    ) -> None:
        self._order = order
        self._has_facets = has_facets
        self._changes = ChangeSet()
        self._facets = FacetCollector(dictionary, order)
        self._edge_sets: dict[str, list[EdgeRow]] = {}
        self._rows: dict[str, dict[Any, Any]] = {table: {} for table in MERGE_SPECS}
        self._reducers = {row_type: (self._rows[table], reduce) for row_type, (table, reduce) in _reducers().items()}

    def add(self, event: Event | RuntimeEvent | DataFrameEvent | None, event_id: str, seq: int) -> None:
        """Add an event; None for a rejected one."""
        (self._changes.rejected if event is None else self._changes.events).append((seq, event_id))
        if isinstance(event, Event):
            context = EventContext.of(event, seq, self._order)
            for row in extract_rows(context):
                self._add_row(row)
            if self._has_facets:
                self._add_facets(context)
        elif isinstance(event, RuntimeEvent):
            self._add_row(cell_row(event, seq))
        elif isinstance(event, DataFrameEvent):
            self._add_row(operation_row(event, event_id, seq))

    def changes(self) -> ChangeSet:
        """Return the changes of all events."""
        changes = self._changes
        for table, rows in self._rows.items():
            if table not in _NOT_REDUCED:
                setattr(changes, table, list(rows.values()))
        assign_job_versions(changes.runs, changes.run_io)
        changes.edge_sets = list(chain.from_iterable(self._edge_sets.values()))
        changes.facets = list(self._facets.rows())
        return changes

    def _add_row(self, row: TableRow | EdgeSet) -> None:
        if isinstance(row, EdgeSet):
            if row.edges is not None:
                self._edge_sets[row.edge_set_id] = row.edges
        elif isinstance(row, RunEventRow):
            self._changes.run_events.append(row)
        else:
            rows, reduce = self._reducers[type(row)]
            reduce(rows, row)

    def _add_facets(self, context: EventContext) -> None:
        event, add = context.event, self._facets.add
        if event.run is not None:
            add("run", event.run.run_id, event.run.facets, context)
        if event.job is not None:
            add("job", entity_key(event.job.namespace, event.job.name), event.job.facets, context)
        for dataset in (*(event.inputs or ()), *(event.outputs or ()), *((event.dataset,) if event.dataset else ())):
            key = dataset_key(dataset.namespace, dataset.name, parse_dataset_version(dataset.facets))
            add("dataset", key, dataset.facets, context)
            if dataset.input_facets or dataset.output_facets:
                io_key = run_dataset_key(context.run_uuid, key)
                add("input", io_key, dataset.input_facets, context)
                add("output", io_key, dataset.output_facets, context)


class RawOnlyExtractor:
    """Collect the runs, jobs, datasets, inputs and outputs of events; a backfill completes them."""

    def __init__(self) -> None:
        self._extractor = ChangeExtractor()

    def add(self, event: Event, event_id: str, seq: int) -> None:
        """Add an event."""
        self._extractor.add(without_facets(event), event_id, seq)

    def changes(self) -> ChangeSet:
        """Return the changes of all events."""
        changes = self._extractor.changes()
        return ChangeSet(
            events=changes.events,
            run_events=changes.run_events,
            runs=changes.runs,
            jobs=changes.jobs,
            datasets=changes.datasets,
            run_io=changes.run_io,
            reported_job_edges=changes.reported_job_edges,
        )
