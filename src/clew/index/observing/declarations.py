"""Versions that are declared without a run: what a job reads and writes by a JobEvent, a dataset by a DatasetEvent."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from clew.events.job_facets import location_of
from clew.events.lifecycle import lifecycle_change_of
from clew.events.openlineage import Dataset, Job
from clew.events.statements import implied_inputs_of
from clew.events.versions import Identity, job_version
from clew.index.changes import DatasetDeclarationRow, JobDeclarationRow
from clew.index.observing.contents import SeenSchemas
from clew.index.observing.sighting import Sighting


class SeenJobDeclarations:
    """One row per job and version."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str, str], JobDeclarationRow] = {}

    def note(self, job: Job, sighting: Sighting) -> None:
        """Take a JobEvent."""
        event = sighting.event
        inputs, outputs = _names(event.inputs) | implied_inputs_of(event), _names(event.outputs)
        facet = (job.facets or {}).get("sourceCodeLocation")
        location = None if facet is None else location_of(bytes(facet))
        key = job.namespace, job.name, job_version((job.namespace, job.name), inputs, outputs, location)
        row = self._versions.get(key)
        if row is None:
            at, seq = sighting.at, sighting.seq
            self._versions[key] = JobDeclarationRow(
                *key, listed(inputs), listed(outputs), location, at, at, seq, seq, seq
            )
        else:
            _widen(row, sighting)

    def rows(self) -> Iterable[JobDeclarationRow]:
        """All versions declared."""
        return self._versions.values()


class SeenDatasetDeclarations:
    """One row per dataset, schema and lifecycle state."""

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str, str, str], DatasetDeclarationRow] = {}

    def note(self, dataset: Dataset, version: str | None, sighting: Sighting, schemas: SeenSchemas) -> None:
        """Take the subject of a DatasetEvent."""
        facets = dataset.facets or {}
        facet = facets.get("lifecycleStateChange")
        change = None if facet is None else lifecycle_change_of(bytes(facet))
        schema_id, state = schemas.note(facets) or "", "" if change is None else change.state
        if not schema_id and not state:
            return
        key = dataset.namespace, dataset.name, schema_id, state
        row = self._versions.get(key)
        if row is None:
            self._versions[key] = DatasetDeclarationRow(*key, version, sighting.at, sighting.seq)
        else:
            row.version, row.last_seq = version, sighting.seq
            row.created_at = min(row.created_at, sighting.at)

    def rows(self) -> Iterable[DatasetDeclarationRow]:
        """All versions declared."""
        return self._versions.values()


def listed(datasets: Iterable[Identity]) -> str:
    """Datasets as JSON, in the order of their names."""
    names = [{"namespace": namespace, "name": name} for namespace, name in sorted(datasets)]
    return msgspec.json.encode(names).decode()


def _names(datasets: list[Dataset] | None) -> set[Identity]:
    return {(dataset.namespace, dataset.name) for dataset in datasets or ()}


def _widen(row: JobDeclarationRow, sighting: Sighting) -> None:
    if sighting.at >= row.declared_at:
        row.declared_at, row.declared_seq = sighting.at, sighting.seq
    row.created_at = min(row.created_at, sighting.at)
    row.last_seq = sighting.seq
