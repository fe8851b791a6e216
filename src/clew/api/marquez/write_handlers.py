"""PUT, POST and DELETE handlers: tags, namespaces, sources and deletion.

Each change is an event in the log. The response is sent once it is synced and has the document as it will be after the
pipeline has ingested the event; until then, this process overlays the change.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from clew.api.marquez.http import MarquezError, MarquezRequest, MarquezResponse
from clew.api.marquez.read_handlers import json_response, require_dataset, require_job, require_namespace
from clew.api.marquez.schemas import format_dataset, format_job
from clew.eventlog.segments import end_position
from clew.eventlog.writer import IncomingEvent, LogLockedError, LogWriter, normalize_body
from clew.events.ids import event_id
from clew.events.streams import Stream
from clew.query.entities.annotations import (
    NamespaceAnnotation,
    SoftDelete,
    SourceAnnotation,
    TagAnnotation,
    TagDescription,
    annotation_body,
    annotation_event,
    annotation_key,
)
from clew.query.entities.catalog import Catalog, UnindexedAnnotations
from clew.query.entities.model import CatalogDataset, DataSource, TagDefinition
from clew.query.search_index import EntityKind

StoreEvent = Callable[[IncomingEvent], object]
# Kind, namespace and name of what was deleted.
DeleteCallback = Callable[[str, str, str], None]
T = TypeVar("T", bound=Struct)

LOG_SOURCE = "clew-api"
_NAMESPACE_NAME = re.compile(r"[a-zA-Z:;=/0-9_\-.@+]{1,1024}")
_NOT_COLLECTING = "This server does not collect events: start it with `clew up` or `clew serve --collect`."


class NamespaceBody(Struct, rename="camel"):
    """Request body of a namespace; the namespace keeps what is not set."""

    owner_name: str | UnsetType = UNSET
    description: str | UnsetType | None = UNSET


class SourceBody(Struct, rename="camel"):
    """Request body of a source."""

    type: str
    connection_url: str
    description: str | None = None


class TagBody(Struct):
    """Request body of a tag."""

    description: str | None = None


def create_log_store(log: Path) -> StoreEvent:
    """Create a function that appends one event to the log; 503 while another process holds the log."""

    def store(event: IncomingEvent) -> None:
        try:
            with LogWriter(log) as writer:
                writer.append([event])
        except LogLockedError as error:
            hint = "Stop the collector, or run `clew serve --collect`, which also collects events."
            raise MarquezError(503, f"{error.message} {hint}") from error

    return store


class WriteHandlers:
    """Handlers of the write endpoints."""

    def __init__(
        self, log: Path, store_event: StoreEvent, pending: UnindexedAnnotations, on_delete: DeleteCallback
    ) -> None:
        self._log = log
        self._store_event = store_event
        self._pending = pending
        self._on_delete = on_delete

    def put_tag(self, _: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`PUT /tags/{tag}`."""
        (name,) = request.path_args
        body = parse_body(request, TagBody) if request.body.strip() not in {b"", b"null"} else TagBody()
        self._record(("tag", name), TagDescription(body.description))
        return json_response(TagDefinition(name, body.description))

    def put_namespace(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`PUT /namespaces/{namespace}`."""
        (name,) = request.path_args
        if _NAMESPACE_NAME.fullmatch(name) is None:
            raise MarquezError(
                400, f"namespace '{name}' must contain only letters, numbers, and _-:;=/.@+, 1024 at most."
            )
        body, now = parse_body(request, NamespaceBody), datetime.now(UTC)
        current = catalog.annotations.namespace(name)
        if current is None:
            if body.owner_name is UNSET:
                raise MarquezError(422, "ownerName must not be null", is_validation=True)
            current = NamespaceAnnotation(body.owner_name, created_at=now)
        owner = current.owner if body.owner_name is UNSET else body.owner_name
        description = current.description if body.description is UNSET else body.description
        annotation = NamespaceAnnotation(owner, description, current.created_at, now)
        self._record(("namespace", name), annotation)
        self._unhide(catalog, "namespace", name)
        return json_response(require_namespace(catalog, name))

    def put_source(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`PUT /sources/{source}`."""
        (name,) = request.path_args
        body, now = parse_body(request, SourceBody), datetime.now(UTC)
        current = catalog.annotations.sources().get(name)
        created_at = now if current is None else current.created_at
        annotation = SourceAnnotation(body.type.upper(), body.connection_url, body.description, created_at, now)
        self._record(("source", name), annotation)
        return json_response(DataSource(annotation.type, name, created_at, now, annotation.url, annotation.description))

    def delete_namespace(self, catalog: Catalog, request: MarquezRequest) -> MarquezResponse:
        """`DELETE /namespaces/{namespace}`."""
        (name,) = request.path_args
        require_namespace(catalog, name)
        self._record(("hidden", "namespace", name), SoftDelete())
        return json_response(require_namespace(catalog, name))

    def delete(self, catalog: Catalog, request: MarquezRequest, *, kind: EntityKind) -> MarquezResponse:
        """`DELETE` of a job or dataset."""
        response = _entity_response(catalog, request, kind)
        self._record(("hidden", kind, *request.entity_name), SoftDelete())
        self._on_delete(kind, *request.entity_name)
        return response

    def tag(self, catalog: Catalog, request: MarquezRequest, *, kind: EntityKind, is_set: bool) -> MarquezResponse:
        """`POST` or `DELETE` of a tag of a job or dataset."""
        _entity_response(catalog, request, kind)
        self._tag(catalog, request, kind, (None, request.path_args[2]), is_set=is_set)
        return _entity_response(catalog, request, kind)

    def tag_field(self, catalog: Catalog, request: MarquezRequest, *, is_set: bool) -> MarquezResponse:
        """`POST` or `DELETE /namespaces/{namespace}/datasets/{dataset}/fields/{field}/tags/{tag}`."""
        field = _require_field(catalog, request)
        self._tag(catalog, request, "dataset", (field, request.path_args[3].upper()), is_set=is_set)
        return _entity_response(catalog, request, "dataset")

    def _tag(
        self, catalog: Catalog, request: MarquezRequest, kind: str, tagged: tuple[str | None, str], *, is_set: bool
    ) -> None:
        """Set or remove a tag of a column, or of the entity itself."""
        name = request.entity_name
        current: TagAnnotation = catalog.annotations.tag_annotation(kind, *name)
        updated = current.with_tag(tagged) if is_set else current.without_tag(tagged)
        self._record(("tags", kind, *name), updated)

    def _unhide(self, catalog: Catalog, *identity: str) -> None:
        if catalog.annotations.hidden_namespace(identity[1]) is not None:
            self._record(("hidden", *identity), SoftDelete(is_hidden=False))

    def _record(self, identity: tuple[str, ...], annotation: Struct) -> None:
        annotations = [(annotation_key(*identity), annotation_body(annotation))]
        event = IncomingEvent(Stream.OPENLINEAGE, LOG_SOURCE, annotation_event(annotations))
        self._store_event(event)
        self._pending.add(event_id(normalize_body(event.body)), annotations, end_position(self._log) - 1)


def not_collecting(_: Catalog, __: MarquezRequest) -> NoReturn:
    """Reject a request that needs a collector."""
    raise MarquezError(405, _NOT_COLLECTING)


def parse_body(request: MarquezRequest, kind: type[T]) -> T:
    """Decode the body of a request, or raise 422 or 400."""
    try:
        return msgspec.json.decode(request.body, type=kind)
    except msgspec.ValidationError as error:
        raise MarquezError(422, str(error), is_validation=True) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MarquezError(400, "Unable to process JSON") from None


def _entity_response(catalog: Catalog, request: MarquezRequest, kind: EntityKind) -> MarquezResponse:
    """Return the document of the job or dataset of the path."""
    if kind == "job":
        return json_response(format_job(require_job(catalog, request)))
    return json_response(format_dataset(require_dataset(catalog, request)))


def _require_field(catalog: Catalog, request: MarquezRequest) -> str:
    dataset: CatalogDataset = require_dataset(catalog, request)
    name = request.path_args[2]
    if all(field.name != name for field in dataset.fields):
        raise MarquezError(404, f"Field '{name}' not found for dataset '{dataset.name}'.")
    return name
