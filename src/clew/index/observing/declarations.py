"""Versions declared without a run: of jobs by JobEvents, of datasets by DatasetEvents."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from clew.events.job_facets import parse_source_code_location
from clew.events.lifecycle import parse_lifecycle_change
from clew.events.openlineage import Dataset, Job
from clew.events.statements import find_implied_inputs
from clew.events.versions import Identity, compute_job_version
from clew.index.changes import DatasetDeclarationRow, JobDeclarationRow
from clew.index.observing.contents import SchemaCollector
from clew.index.observing.sighting import EventContext


class JobDeclarationCollector:
    """Collect one row per job and version."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str, str], JobDeclarationRow] = {}

    def add(self, job: Job, context: EventContext) -> None:
        """Add a JobEvent."""
        event = context.event
        inputs, outputs = _names(event.inputs) | find_implied_inputs(event), _names(event.outputs)
        facet = (job.facets or {}).get("sourceCodeLocation")
        location = None if facet is None else parse_source_code_location(bytes(facet))
        key = job.namespace, job.name, compute_job_version((job.namespace, job.name), inputs, outputs, location)
        row = self._versions.get(key)
        if row is None:
            at, seq = context.event_time, context.seq
            self._versions[key] = JobDeclarationRow(
                *key, _to_json(inputs), _to_json(outputs), location, at, at, seq, seq, seq
            )
        else:
            _merge_into_declaration(row, context)

    def rows(self) -> Iterable[JobDeclarationRow]:
        """Return the rows of all declared versions."""
        return self._versions.values()


class DatasetDeclarationCollector:
    """Collect one row per dataset, schema and lifecycle state."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str, str, str], DatasetDeclarationRow] = {}

    def add(self, dataset: Dataset, version: str | None, context: EventContext, schemas: SchemaCollector) -> None:
        """Add the dataset of a DatasetEvent."""
        facets = dataset.facets or {}
        facet = facets.get("lifecycleStateChange")
        change = None if facet is None else parse_lifecycle_change(bytes(facet))
        schema_id, state = schemas.add(facets) or "", "" if change is None else change.state
        if not schema_id and not state:
            return
        key = dataset.namespace, dataset.name, schema_id, state
        row = self._versions.get(key)
        if row is None:
            self._versions[key] = DatasetDeclarationRow(*key, version, context.event_time, context.seq)
        else:
            row.version, row.last_seq = version, context.seq
            row.created_at = min(row.created_at, context.event_time)

    def rows(self) -> Iterable[DatasetDeclarationRow]:
        """Return the rows of all declared versions."""
        return self._versions.values()


def _to_json(datasets: Iterable[Identity]) -> str:
    """Encode datasets as JSON, sorted by name."""
    names = [{"namespace": namespace, "name": name} for namespace, name in sorted(datasets)]
    return msgspec.json.encode(names).decode()


def _names(datasets: list[Dataset] | None) -> set[Identity]:
    return {(dataset.namespace, dataset.name) for dataset in datasets or ()}


def _merge_into_declaration(row: JobDeclarationRow, context: EventContext) -> None:
    if context.event_time >= row.declared_at:
        row.declared_at, row.declared_seq = context.event_time, context.seq
    row.created_at = min(row.created_at, context.event_time)
    row.last_seq = context.seq
