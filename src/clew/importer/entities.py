"""What a Marquez server knows beside its events, as annotations and OpenLineage events.

Tags, owners and deletions become annotations. Jobs, datasets and runs that no event names, because PUT or POST requests
made them, become events. The same state gives the same bytes, so that a repeated import adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from clew.api.marquez.schemas import DATASET_FACET
from clew.events.openlineage import parse_time
from clew.query.entities.annotations import (
    NO_ANNOTATIONS,
    Annotations,
    NamespaceAnnotation,
    SoftDelete,
    SourceAnnotation,
    TagDescription,
    annotation_body,
    annotation_event,
    annotation_key,
)

_PRODUCER: Final = "https://github.com/clew-lineage/clew/import"
_SPEC: Final = "https://openlineage.io/spec"
_EVENT_SCHEMA: Final = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/"
# Marquez sets it for each namespace that an event mentions.
DEFAULT_OWNER: Final = "anonymous"
_DEFAULT_SOURCE: Final = "default"
_STREAM: Final = "STREAM"
_ANNOTATIONS_PER_EVENT = 500
_END_TYPES: Final = {"COMPLETED": "COMPLETE", "FAILED": "FAIL", "ABORTED": "ABORT"}

DatasetId = tuple[str, str]
# A column or None for the entity itself, and the tag.
Tagged = tuple[str | None, str]
_encode = msgspec.json.Encoder(order="sorted").encode


class SchemaColumn(Struct, frozen=True):
    """Column of a dataset."""

    name: str
    type: str | None = None
    description: str | None = None


class DatasetStorage(Struct, frozen=True):
    """Type of a dataset as Marquez names it, its name in the source, and the source with its URL."""

    kind: str
    physical_name: str
    source: str | None = None
    url: str | None = None


class PutRun(Struct, frozen=True):
    """A run without events: its state as Marquez names it, and its times in ISO 8601."""

    id: str
    job: DatasetId
    created_at: str
    state: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    inputs: Sequence[DatasetId] = ()
    outputs: Sequence[DatasetId] = ()


class EntityDocuments:
    """Collects annotations by key, and events. `current` are the annotations that users of clew have made."""

    def __init__(self, current: Annotations = NO_ANNOTATIONS) -> None:
        self.annotations: dict[str, bytes] = {}
        self.events: list[bytes] = []
        self._current = current

    def add_tag(self, name: str, description: str | None) -> None:
        """Add the definition of a tag."""
        self._annotate(("tag", name), TagDescription(description))

    def add_namespace(
        self, name: str, owner: str | None, description: str | None, created_at: str | None = None
    ) -> None:
        """Add owner and description of a namespace, if they were set and users of clew have not set others."""
        is_set = owner not in {None, "", DEFAULT_OWNER} or bool(description)
        if is_set and self._current.namespace(name) is None:
            annotation = NamespaceAnnotation(owner or DEFAULT_OWNER, description, *_times(created_at))
            self._annotate(("namespace", name), annotation)

    def add_source(
        self, name: str, kind: str, url: str, description: str | None, created_at: str | None = None
    ) -> None:
        """Add a data source."""
        if name != _DEFAULT_SOURCE and name not in self._current.sources():
            self._annotate(("source", name), SourceAnnotation(kind, url, description, *_times(created_at)))

    def hide(self, *identity: str) -> None:
        """Hide a deleted job, dataset or namespace until the next event about it."""
        self._annotate(("hidden", *identity), SoftDelete())

    def add_tags(self, kind: str, namespace: str, name: str, tags: Iterable[Tagged]) -> None:
        """Add tags to those that users of clew have set."""
        annotation = self._current.tag_annotation(kind, namespace, name)
        for tagged in sorted(tags, key=lambda item: (item[0] or "", item[1])):
            annotation = annotation.with_tag(tagged)
        self._annotate(("tags", kind, namespace, name), annotation)

    def add_job(
        self,
        namespace: str,
        name: str,
        created_at: str,
        *,
        kind: str | None = None,
        description: str | None = None,
        location: str | None = None,
        inputs: Iterable[DatasetId] = (),
        outputs: Iterable[DatasetId] = (),
    ) -> None:
        """Add a job without events; its kind is that of Marquez."""
        facets: dict[str, Any] = _documentation(description, "DocumentationJobFacet")
        if kind == _STREAM:
            facets["jobType"] = _facet("JobTypeJobFacet", processingType="STREAMING", integration="MARQUEZ")
        if location:
            facets["sourceCodeLocation"] = _facet("SourceCodeLocationJobFacet", type="", url=location)
        job = {"namespace": namespace, "name": name, "facets": facets}
        self._add_event("JobEvent", created_at, job=job, inputs=_datasets(inputs), outputs=_datasets(outputs))

    def add_dataset(
        self,
        namespace: str,
        name: str,
        created_at: str,
        *,
        storage: DatasetStorage | None = None,
        description: str | None = None,
        fields: Sequence[SchemaColumn] = (),
    ) -> None:
        """Add a dataset without events."""
        facets: dict[str, Any] = _documentation(description, "DocumentationDatasetFacet")
        if storage is not None:
            facets |= _storage_facets(storage, name)
        if fields:
            columns = [
                {key: value for key, value in msgspec.structs.asdict(field).items() if value} for field in fields
            ]
            facets["schema"] = _facet("SchemaDatasetFacet", fields=columns)
        self._add_event("DatasetEvent", created_at, dataset={"namespace": namespace, "name": name, "facets": facets})

    def add_run(self, run: PutRun) -> None:
        """Add a run without events: its start, and its end."""
        namespace, name = run.job
        body = {"run": {"runId": run.id}, "job": {"namespace": namespace, "name": name}}
        datasets = {"inputs": _datasets(run.inputs), "outputs": _datasets(run.outputs)}
        if run.state in {None, "NEW"}:
            self._add_event("RunEvent", run.created_at, eventType="OTHER", **body, **datasets)
            return
        self._add_event("RunEvent", run.started_at or run.created_at, eventType="START", **body, **datasets)
        end = _END_TYPES.get(str(run.state))
        if end is not None:
            time = run.ended_at or run.started_at or run.created_at
            self._add_event("RunEvent", time, eventType=end, **body, **datasets)

    def _annotate(self, identity: tuple[str, ...], annotation: Struct) -> None:
        self.annotations[annotation_key(*identity)] = annotation_body(annotation)

    def _add_event(self, kind: str, time: str, **members: Any) -> None:
        event = {**members, "eventTime": time, "producer": _PRODUCER, "schemaURL": f"{_EVENT_SCHEMA}{kind}"}
        self.events.append(_encode(event))


def annotation_events(annotations: Sequence[tuple[str, bytes]]) -> Iterator[bytes]:
    """Yield the events that store annotations in the log."""
    return map(annotation_event, _batches(annotations))


def _times(created_at: str | None) -> tuple[datetime | None, datetime | None]:
    """Return the times of the first and the last change; that of Marquez's last change also changes with events."""
    time = None if created_at is None else parse_time(created_at)
    return time, time


def _batches(items: Sequence[tuple[str, bytes]]) -> Iterator[Sequence[tuple[str, bytes]]]:
    return (items[start : start + _ANNOTATIONS_PER_EVENT] for start in range(0, len(items), _ANNOTATIONS_PER_EVENT))


def _documentation(description: str | None, schema: str) -> dict[str, Any]:
    return {"documentation": _facet(schema, description=description)} if description else {}


def _storage_facets(storage: DatasetStorage, name: str) -> dict[str, Any]:
    facets = {}
    if storage.source not in {None, _DEFAULT_SOURCE}:
        facets["dataSource"] = _facet("DatasourceDatasetFacet", name=storage.source, uri=storage.url or "")
    if storage.kind == _STREAM or storage.physical_name != name:
        url = f"{_EVENT_SCHEMA}DatasetFacet"
        own = {"type": storage.kind, "physicalName": storage.physical_name}
        facets[DATASET_FACET] = {"_producer": _PRODUCER, "_schemaURL": url, **own}
    return facets


def _facet(schema: str, **members: Any) -> dict[str, Any]:
    url = f"{_SPEC}/facets/1-0-0/{schema}.json#/$defs/{schema}"
    return {"_producer": _PRODUCER, "_schemaURL": url, **members}


def _datasets(names: Iterable[DatasetId]) -> list[dict[str, str]]:
    return [{"namespace": namespace, "name": name} for namespace, name in sorted(set(names))]
