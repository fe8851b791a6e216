"""PUT and POST handlers that Marquez has deprecated: datasets, jobs, runs and run states.

Each request becomes OpenLineage events in the log, like those of any producer. The response is the document with these
events, which need not be indexed yet.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any, Final, Literal
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from clew.api.marquez.http import MarquezError, MarquezRequest, MarquezResponse, not_found_error
from clew.api.marquez.read_handlers import require_namespace
from clew.api.marquez.schemas import DATASET_FACET, RUN_FACET
from clew.api.marquez.write_handlers import LOG_SOURCE, StoreEvent, parse_body
from clew.eventlog.writer import IncomingEvent
from clew.events.decoding import RejectedError
from clew.events.openlineage import validate_openlineage
from clew.events.streams import Stream
from clew.index.queries.entities import Name
from clew.query.entities.catalog import Catalog
from clew.query.entities.model import CatalogDataset
from clew.query.entities.unindexed import EntityReference

# Returns the response to a GET request, given by its path segments.
ReadPath = Callable[..., MarquezResponse]
# Opens the catalog of an entity with its newest events.
OpenCatalog = Callable[[EntityReference], AbstractContextManager[Catalog]]

# Event types by the last segment of the path.
TRANSITIONS: Final = {"start": "START", "complete": "COMPLETE", "fail": "FAIL", "abort": "ABORT"}
_PRODUCER = "https://github.com/clew-lineage/clew/marquez"
_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/{}"
_FACETS = "https://openlineage.io/spec/facets/"
# The type of the other events of a run: it does not change the state.
_OTHER = "OTHER"


class FieldBody(Struct):
    """A field in the request body of a dataset."""

    name: str
    type: str | None = None
    tags: tuple[str, ...] | None = ()
    description: str | None = None


class DatasetBody(Struct, rename="camel"):
    """Request body of a dataset."""

    type: Literal["DB_TABLE", "STREAM"]
    physical_name: str
    source_name: str
    fields: tuple[FieldBody, ...] | None = ()
    tags: tuple[str, ...] | None = ()
    description: str | None = None
    run_id: str | None = None
    schema_location: str | None = None


class NameBody(Struct):
    """Name of a dataset."""

    namespace: str
    name: str


class JobBody(Struct, rename="camel"):
    """Request body of a job."""

    type: Literal["BATCH", "STREAM", "SERVICE"]
    inputs: tuple[NameBody, ...]
    outputs: tuple[NameBody, ...]
    location: str | None = None
    description: str | None = None
    run_id: str | None = None
    tags: tuple[str, ...] | None = ()


class RunBody(Struct, rename="camel"):
    """Request body of a run."""

    id: str | None = None
    nominal_start_time: str | None = None
    nominal_end_time: str | None = None
    args: dict[str, str] | None = None


class DeprecatedWriteHandlers:
    """Handlers of requests that become events."""

    def __init__(self, store_event: StoreEvent, read: ReadPath, open_catalog: OpenCatalog) -> None:
        self._store_event = store_event
        self._read = read
        self._open_catalog = open_catalog

    def put_dataset(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`PUT /namespaces/{namespace}/datasets/{dataset}`."""
        namespace, name = request.entity_name
        require_namespace(catalog, namespace)
        body = parse_body(request, DatasetBody)
        source = next((source for source in catalog.sources() if source.name == body.source_name), None)
        if source is None:
            raise not_found_error("Source", body.source_name)
        with self._open_catalog(("dataset", namespace, name)) as known:
            current = known.dataset((namespace, name))
        facets = _dataset_facets(body, source.connection_url, current)
        dataset = {"namespace": namespace, "name": name, "facets": facets}
        if body.run_id is None:
            self._store("DatasetEvent", dataset=dataset)
        else:
            self._store_run(body.run_id, _OTHER, self._job_of_run(body.run_id), outputs=[dataset])
        return self._read("namespaces", namespace, "datasets", name)

    def put_job(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`PUT /namespaces/{namespace}/jobs/{job}`."""
        job = namespace, name = request.entity_name
        require_namespace(catalog, namespace)
        body = parse_body(request, JobBody)
        for dataset in (*body.inputs, *body.outputs):
            self._read("namespaces", dataset.namespace, "datasets", dataset.name)
        if body.run_id is not None and self._job_of_run(body.run_id) != job:
            raise not_found_error("Run", body.run_id)
        inputs, outputs = (msgspec.to_builtins(datasets) for datasets in (body.inputs, body.outputs))
        document = {"namespace": namespace, "name": name, "facets": _job_facets(body)}
        self._store("JobEvent", job=document, inputs=inputs, outputs=outputs)
        if body.run_id is not None:
            self._store_run(body.run_id, _OTHER, job, inputs=inputs, outputs=outputs)
        return self._read("namespaces", namespace, "jobs", name)

    def create_run(self, _: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`POST /namespaces/{namespace}/jobs/{job}/runs`."""
        namespace, name = request.entity_name
        self._read("namespaces", namespace, "jobs", name)
        body = parse_body(request, RunBody)
        run_id = str(uuid4()) if body.id is None else _parse_run_id(body.id)
        if body.id is not None and self._has_run(run_id):
            raise MarquezError(400, f"Run '{run_id}' already exists for '{name}' under namespace '{namespace}'.")
        facets: dict[str, Any] = {}
        if body.nominal_start_time is not None:
            times = {"nominalStartTime": body.nominal_start_time, "nominalEndTime": body.nominal_end_time}
            facets["nominalTime"] = _facet("1-0-1/NominalTimeRunFacet", times)
        if body.args:
            facets[RUN_FACET] = {"_producer": _PRODUCER, "_schemaURL": _SPEC.format("RunFacet"), "args": body.args}
        self._store_run(run_id, _OTHER, request.entity_name, facets)
        response = self._read("jobs", "runs", run_id)
        location = f"/api/v1/jobs/runs/{run_id}".encode()
        return MarquezResponse(response.body, 201, ((b"location", location),))

    def mark_run(self, _: Catalog, request: MarquezRequest, event_type: str) -> MarquezResponse:
        """`POST /jobs/runs/{run}/start`, `…/complete`, `…/fail` and `…/abort`."""
        (run_id,) = request.path_args
        name = self._job_of_run(run_id)
        at = request.timestamp_param("at", datetime.now(UTC))
        with self._open_catalog(("job", *name)) as catalog:
            job = catalog.job(name)
            # In Marquez, a run reads and writes the datasets of its job.
            inputs, outputs = ((), ()) if job is None else (job.inputs, job.outputs)
            job_facets = {} if job is None or job.location is None else _location_facet(job.location)
        self._store_run(
            run_id,
            event_type,
            name,
            at=at,
            job_facets=job_facets,
            inputs=_name_documents(inputs),
            outputs=_name_documents(outputs),
        )
        return self._read("jobs", "runs", run_id)

    def _has_run(self, run_id: str) -> bool:
        with self._open_catalog(("run", run_id)) as catalog:
            return catalog.run(run_id) is not None

    def _job_of_run(self, run_id: str) -> Name:
        with self._open_catalog(("run", run_id)) as catalog:
            run = catalog.run(run_id)
            if run is None or run.job is None:
                raise not_found_error("Run", run_id)
            return run.job

    def _store_run(
        self,
        run_id: str,
        event_type: str,
        job: Name,
        facets: dict[str, Any] | None = None,
        at: datetime | None = None,
        job_facets: dict[str, Any] | None = None,
        **members: Any,
    ) -> None:
        run = {"runId": run_id, "facets": facets or {}}
        document = {"namespace": job[0], "name": job[1], "facets": job_facets or {}}
        self._store("RunEvent", at, eventType=event_type, run=run, job=document, **members)

    def _store(self, kind: str, at: datetime | None = None, **members: Any) -> None:
        event_time = (at or datetime.now(UTC)).isoformat(timespec="microseconds")
        document = {"eventTime": event_time, **members, "producer": _PRODUCER, "schemaURL": _SPEC.format(kind)}
        body = msgspec.json.encode(document)
        try:
            validate_openlineage(body)
        except RejectedError as error:
            raise MarquezError(422, error.detail, is_validation=True) from None
        self._store_event(IncomingEvent(Stream.OPENLINEAGE, LOG_SOURCE, body))


def _parse_run_id(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise MarquezError(400, f"run '{text}' must be a UUID.") from None


def _dataset_facets(body: DatasetBody, source_url: str, current: CatalogDataset | None) -> dict[str, Any]:
    """Return the facets of a request. As in Marquez, tags are added."""
    fields = body.fields or ()
    columns = [{"name": field.name, "type": field.type, "description": field.description} for field in fields]
    own = {"type": body.type, "physicalName": body.physical_name, "schemaLocation": body.schema_location}
    facets = {
        "dataSource": _facet("1-0-1/DatasourceDatasetFacet", {"name": body.source_name, "uri": source_url}),
        "schema": _facet("1-1-1/SchemaDatasetFacet", {"fields": columns}),
        DATASET_FACET: {"_producer": _PRODUCER, "_schemaURL": _SPEC.format("DatasetFacet"), **own},
    }
    if body.description is not None:
        facets["documentation"] = _facet("1-1-0/DocumentationDatasetFacet", {"description": body.description})
    own_tags = () if current is None else (tag.key for tag in current.tags if tag.field is None)
    tags = [{"key": tag, "value": "true"} for tag in sorted({*(body.tags or ()), *own_tags})]
    tags += [{"key": tag, "value": "true", "field": field.name} for field in fields for tag in field.tags or ()]
    if tags:
        facets["tags"] = _facet("1-0-0/TagsDatasetFacet", {"tags": tags})
    return facets


def _job_facets(body: JobBody) -> dict[str, Any]:
    facets = {}
    if body.type == "STREAM":
        facets["jobType"] = _facet("2-0-3/JobTypeJobFacet", {"processingType": "STREAMING", "integration": "MARQUEZ"})
    if body.description is not None:
        facets["documentation"] = _facet("1-1-0/DocumentationJobFacet", {"description": body.description})
    if body.location is not None:
        facets |= _location_facet(body.location)
    if body.tags:
        tags = [{"key": tag, "value": "true"} for tag in body.tags]
        facets["tags"] = _facet("1-0-0/TagsJobFacet", {"tags": tags})
    return facets


def _location_facet(url: str) -> dict[str, Any]:
    return {"sourceCodeLocation": _facet("1-0-1/SourceCodeLocationJobFacet", {"type": "url", "url": url})}


def _facet(schema: str, members: dict[str, Any]) -> dict[str, Any]:
    name = schema.partition("/")[2]
    url = f"{_FACETS}{schema}.json#/$defs/{name}"
    return {"_producer": _PRODUCER, "_schemaURL": url, **members}


def _name_documents(names: tuple[Name, ...]) -> list[dict[str, str]]:
    return [{"namespace": namespace, "name": name} for namespace, name in names]
