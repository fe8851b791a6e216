"""Extract the index rows of events, with or without facets."""

from __future__ import annotations

from clew.events.facets import FacetOrder
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Dataset, Event, parse_dataset_version, without_facets
from clew.index.changes import ChangeSet, RunEventRow
from clew.index.encoding import dataset_key, entity_key, run_dataset_key
from clew.index.extract.context import EventContext, EventPrecedence
from clew.index.extract.datasets import DatasetCollector, FacetCollector, IoCollector, SchemaCollector
from clew.index.extract.lineage import AssertionCollector, cell_row, operation_row
from clew.index.extract.runs import (
    DatasetDeclarationCollector,
    JobCollector,
    JobDeclarationCollector,
    ParentReferenceCollector,
    RunCollector,
)
from clew.index.writer import assign_job_versions


class ChangeExtractor:
    """Collect the changes of the events of one worker, which arrive in the order of receipt."""

    def __init__(self, dictionary: bytes | None = None, order: FacetOrder = FacetOrder.RECEIVED) -> None:
        self._changes = ChangeSet()
        self._precedence = EventPrecedence(order)
        self._parent_references = ParentReferenceCollector()
        self._runs = RunCollector(self._parent_references, self._precedence)
        self._jobs = JobCollector(self._precedence)
        self._schemas = SchemaCollector()
        self._job_declarations = JobDeclarationCollector()
        self._dataset_declarations = DatasetDeclarationCollector()
        self._datasets = DatasetCollector(self._precedence)
        self._io = IoCollector(self._schemas, self._precedence)
        self._assertions = AssertionCollector(self._datasets, self._io, self._precedence)
        self._facets = FacetCollector(dictionary, order)

    def add(self, event: Event | RuntimeEvent | DataFrameEvent | None, event_id: str, seq: int) -> None:
        """Add an event; None for a rejected one."""
        (self._changes.rejected if event is None else self._changes.events).append((seq, event_id))
        if isinstance(event, Event):
            self._add_openlineage(EventContext.of(event, seq))
        elif isinstance(event, RuntimeEvent):
            self._changes.cell_executions.append(cell_row(event, seq))
        elif isinstance(event, DataFrameEvent):
            self._changes.operations.append(operation_row(event, event_id, seq))

    def changes(self) -> ChangeSet:
        """Return the changes of all events."""
        changes = self._changes
        changes.event_times = list(self._precedence.rows())
        changes.runs, changes.jobs = list(self._runs.rows()), list(self._jobs.rows())
        changes.referenced_runs, changes.referenced_jobs = (
            list(self._parent_references.runs()),
            list(self._parent_references.jobs()),
        )
        changes.job_declarations = list(self._job_declarations.rows())
        changes.dataset_declarations = list(self._dataset_declarations.rows())
        changes.datasets = list(self._datasets.rows())
        changes.renames, changes.symlinks = list(self._datasets.renames()), list(self._datasets.symlinks())
        changes.run_io, changes.reported_job_edges = list(self._io.run_io()), list(self._io.job_edges())
        assign_job_versions(changes.runs, changes.run_io)
        # After the inputs and outputs, as these parse their schemas last.
        changes.schemas = list(self._schemas.rows())
        changes.lineage_assertions, changes.edge_sets = (
            list(self._assertions.assertions()),
            list(self._assertions.edges()),
        )
        changes.job_dependency_assertions = list(self._assertions.job_dependencies())
        changes.static_lineage = list(self._assertions.static_lineage())
        changes.facets = list(self._facets.rows())
        return changes

    def _add_openlineage(self, context: EventContext) -> None:
        event = context.event
        self._precedence.add(context)
        if event.run is not None:
            self._changes.run_events.append(
                RunEventRow(context.event_time, context.seq, (event.event_type or "").upper())
            )
            self._runs.add(event.run, context)
            self._facets.add("run", event.run.run_id, event.run.facets, context)
        if event.job is not None:
            self._jobs.add(event.job, context)
            if event.run is None:
                self._job_declarations.add(event.job, context)
            self._facets.add("job", entity_key(event.job.namespace, event.job.name), event.job.facets, context)
        for dataset in event.inputs or ():
            self._io.add("INPUT", dataset, self._add_dataset(dataset, context), context)
        for dataset in event.outputs or ():
            self._io.add("OUTPUT", dataset, self._add_dataset(dataset, context), context)
            self._datasets.add_write(dataset, context)
        if event.dataset is not None:
            version = self._add_dataset(event.dataset, context)
            if event.run is None:
                self._dataset_declarations.add(event.dataset, version, context, self._schemas)
            elif event.dataset.facets:
                self._schemas.add(event.dataset.facets)
        self._assertions.add(context)

    def _add_dataset(self, dataset: Dataset, context: EventContext) -> str | None:
        """Add a dataset and its facets, and return its version."""
        version = parse_dataset_version(dataset.facets)
        key = dataset_key(dataset.namespace, dataset.name, version)
        self._datasets.add(dataset.namespace, dataset.name, context)
        if dataset.facets:
            self._datasets.add_facets(dataset, dataset.facets, context)
            self._facets.add("dataset", key, dataset.facets, context)
        if dataset.input_facets or dataset.output_facets:
            io_key = run_dataset_key(context.run_uuid, key)
            self._facets.add("input", io_key, dataset.input_facets, context)
            self._facets.add("output", io_key, dataset.output_facets, context)
        return version


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
