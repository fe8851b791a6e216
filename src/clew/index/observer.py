"""Watching events go by, and noting what each changes in the index: on the workers, beside the writing of files."""

from __future__ import annotations

from clew.events.facet_order import FacetOrder
from clew.events.notebook import DataFrameEvent, RuntimeEvent
from clew.events.openlineage import Dataset, Event, version_of
from clew.index.changes import Changes, RunEventRow
from clew.index.job_versions import say_job_versions
from clew.index.keys import dataset_entity, entity, used_entity
from clew.index.observing.ancestors import SeenAncestors
from clew.index.observing.contents import SeenSchemas
from clew.index.observing.datasets import SeenDatasets, SeenReadsAndWrites
from clew.index.observing.declarations import SeenDatasetDeclarations, SeenJobDeclarations
from clew.index.observing.facets import SeenFacets
from clew.index.observing.jobs import SeenJobs
from clew.index.observing.notebook import cell_row, operation_row
from clew.index.observing.runs import SeenRuns
from clew.index.observing.sighting import Sighting
from clew.index.observing.statements import SeenStatements
from clew.index.observing.turns import Turns


class Observer:
    """Collects changes, merged as far as one worker sees them: its events come in the order received."""

    def __init__(self, dictionary: bytes | None = None, order: FacetOrder = FacetOrder.RECEIVED) -> None:
        self._changes = Changes()
        self._turns = Turns(order)
        self._ancestors = SeenAncestors()
        self._runs = SeenRuns(self._ancestors, self._turns)
        self._jobs = SeenJobs(self._turns)
        self._schemas = SeenSchemas()
        self._declared_jobs = SeenJobDeclarations()
        self._declared_datasets = SeenDatasetDeclarations()
        self._datasets = SeenDatasets(self._turns)
        self._io = SeenReadsAndWrites(self._schemas, self._turns)
        self._statements = SeenStatements(self._datasets, self._io, self._turns)
        self._facets = SeenFacets(dictionary, order)

    def note(self, event: Event | RuntimeEvent | DataFrameEvent | None, event_id: str, seq: int) -> None:
        """Take an event into account; None stands for one that was rejected."""
        (self._changes.rejected if event is None else self._changes.events).append((seq, event_id))
        if isinstance(event, Event):
            self._note_lineage(Sighting.of(event, seq))
        elif isinstance(event, RuntimeEvent):
            self._changes.cell_executions.append(cell_row(event, seq))
        elif isinstance(event, DataFrameEvent):
            self._changes.operations.append(operation_row(event, event_id, seq))

    def changes(self) -> Changes:
        """All that was noted."""
        noted = self._changes
        noted.moments = list(self._turns.rows())
        noted.runs, noted.jobs = list(self._runs.rows()), list(self._jobs.rows())
        noted.mentioned_runs, noted.mentioned_jobs = list(self._ancestors.runs()), list(self._ancestors.jobs())
        noted.job_declarations = list(self._declared_jobs.rows())
        noted.dataset_declarations = list(self._declared_datasets.rows())
        noted.datasets = list(self._datasets.rows())
        noted.renames, noted.symlinks = list(self._datasets.renames()), list(self._datasets.symlinks())
        noted.run_io, noted.said_job_edges = list(self._io.of_runs()), list(self._io.of_jobs())
        say_job_versions(noted.runs, noted.run_io)
        # After what they are the schemas of: those are read last.
        noted.schemas = list(self._schemas.rows())
        noted.statements, noted.edge_sets = list(self._statements.statements()), list(self._statements.edges())
        noted.links = list(self._statements.links())
        noted.lineage_declarations = list(self._statements.declarations())
        noted.facets = list(self._facets.rows())
        return noted

    def _note_lineage(self, sighting: Sighting) -> None:
        event = sighting.event
        self._turns.note(sighting)
        if event.run is not None:
            self._changes.run_events.append(RunEventRow(sighting.at, sighting.seq, (event.event_type or "").upper()))
            self._runs.note(event.run, sighting)
            self._facets.note("run", event.run.run_id, event.run.facets, sighting)
        if event.job is not None:
            self._jobs.note(event.job, sighting)
            if event.run is None:
                self._declared_jobs.note(event.job, sighting)
            self._facets.note("job", entity(event.job.namespace, event.job.name), event.job.facets, sighting)
        for dataset in event.inputs or ():
            self._io.note("INPUT", dataset, self._note_dataset(dataset, sighting), sighting)
        for dataset in event.outputs or ():
            self._io.note("OUTPUT", dataset, self._note_dataset(dataset, sighting), sighting)
            self._datasets.note_write(dataset, sighting)
        if event.dataset is not None:
            version = self._note_dataset(event.dataset, sighting)
            if event.run is None:
                self._declared_datasets.note(event.dataset, version, sighting, self._schemas)
            elif event.dataset.facets:
                self._schemas.note(event.dataset.facets)
        self._statements.note(sighting)

    def _note_dataset(self, dataset: Dataset, sighting: Sighting) -> str | None:
        """Note that there is a dataset, and its facets; gives its version."""
        version = version_of(dataset.facets)
        key = dataset_entity(dataset.namespace, dataset.name, version)
        self._datasets.note(dataset.namespace, dataset.name, sighting)
        if dataset.facets:
            self._datasets.note_facets(dataset, dataset.facets, sighting)
            self._facets.note("dataset", key, dataset.facets, sighting)
        if dataset.input_facets or dataset.output_facets:
            of_run = used_entity(sighting.run_uuid, key)
            self._facets.note("input", of_run, dataset.input_facets, sighting)
            self._facets.note("output", of_run, dataset.output_facets, sighting)
        return version
