"""What people may change by hand: tags, descriptions of namespaces and sources, and what is shown.

Each change is an event in the log. It is answered once that is on disk, with the document as it will be when the
pipeline has taken the event; until then this process shows it so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import msgspec
from msgspec import Struct

from clew.api.marquez.reading import answer, required_dataset, required_job
from clew.api.marquez.requests import Answer, Asked, Refusal, not_found
from clew.api.marquez.shapes import dataset_shape, job_shape, namespace_shape, source_shape
from clew.collector.log import LogHeldError, LogWriter, Received, stored_body
from clew.events.identity import event_id
from clew.events.stream import Stream
from clew.query.catalog.catalog import Catalog, PendingNotes
from clew.query.catalog.model import Dataset, Name, Namespace, Source, Tag
from clew.query.catalog.notes import (
    HiddenNote,
    NamespaceNote,
    SourceNote,
    TagNote,
    TagsNote,
    note_body,
    note_event,
    note_key,
)

Store = Callable[[Received], object]
T = TypeVar("T", bound=Struct)

_SOURCE = "clew-api"
_NAMESPACE_NAME = re.compile(r"[a-zA-Z:;=/0-9_\-.@+]{1,1024}")
_SEND_EVENTS = (
    "Send OpenLineage events to POST /api/v1/lineage instead: Marquez has deprecated this, and clew has left it out."
)


class NamespaceBody(Struct, rename="camel"):
    """What a namespace is made of."""

    owner_name: str
    description: str | None = None


class SourceBody(Struct, rename="camel"):
    """What a source is made of."""

    type: str
    connection_url: str
    description: str | None = None


class TagBody(Struct):
    """What a tag is made of."""

    description: str | None = None


def store_in(log: Path) -> Store:
    """Append to a log for as long as it takes; while another process writes it, there is no way to."""

    def store(received: Received) -> None:
        try:
            with LogWriter(log) as writer:
                writer.append([received])
        except LogHeldError as fault:
            hint = "Stop the collector, or run `clew serve --collect`, which takes events as well."
            raise Refusal(503, f"{fault.message} {hint}") from fault

    return store


class Writing:
    """The endpoints that change something."""

    def __init__(self, store: Store, pending: PendingNotes) -> None:
        self._store = store
        self._pending = pending

    def put_tag(self, catalog: Catalog, asked: Asked) -> Answer:
        """`PUT /tags/{tag}`."""
        (name,) = asked.parts
        body = _body(asked, TagBody) if asked.body.strip() not in {b"", b"null"} else TagBody()
        self._note(catalog, ("tag", name), TagNote(body.description))
        return answer(Tag(name, body.description))

    def put_namespace(self, catalog: Catalog, asked: Asked) -> Answer:
        """`PUT /namespaces/{namespace}`."""
        (name,) = asked.parts
        if _NAMESPACE_NAME.fullmatch(name) is None:
            raise Refusal(400, f"namespace '{name}' must contain only letters, numbers, and _-:;=/.@+, 1024 at most.")
        body = _body(asked, NamespaceBody)
        self._note(catalog, ("namespace", name), NamespaceNote(body.owner_name, body.description))
        self._show(catalog, "namespace", name)
        return answer(namespace_shape(_namespace(catalog, name)))

    def put_source(self, catalog: Catalog, asked: Asked) -> Answer:
        """`PUT /sources/{source}`."""
        (name,) = asked.parts
        body = _body(asked, SourceBody)
        note = SourceNote(body.type.upper(), body.connection_url, body.description)
        self._note(catalog, ("source", name), note)
        return answer(source_shape(Source(name, note.type, None, None, note.url, note.description)))

    def delete_namespace(self, catalog: Catalog, asked: Asked) -> Answer:
        """`DELETE /namespaces/{namespace}`."""
        (name,) = asked.parts
        _namespace(catalog, name)
        self._note(catalog, ("hidden", "namespace", name), HiddenNote())
        return answer(namespace_shape(_namespace(catalog, name)))

    def delete_dataset(self, catalog: Catalog, asked: Asked) -> Answer:
        """`DELETE /namespaces/{namespace}/datasets/{dataset}`."""
        found = required_dataset(catalog, asked)
        self._note(catalog, ("hidden", "dataset", found.namespace, found.name), HiddenNote())
        return answer(dataset_shape(found))

    def delete_job(self, catalog: Catalog, asked: Asked) -> Answer:
        """`DELETE /namespaces/{namespace}/jobs/{job}`."""
        found = required_job(catalog, asked)
        self._note(catalog, ("hidden", "job", found.namespace, found.name), HiddenNote())
        return answer(job_shape(found))

    def tag_dataset(self, catalog: Catalog, asked: Asked) -> Answer:
        """`POST /namespaces/{namespace}/datasets/{dataset}/tags/{tag}`."""
        return self._tag(catalog, asked, "dataset", None, asked.parts[2], is_set=True)

    def untag_dataset(self, catalog: Catalog, asked: Asked) -> Answer:
        """`DELETE /namespaces/{namespace}/datasets/{dataset}/tags/{tag}`."""
        return self._tag(catalog, asked, "dataset", None, asked.parts[2], is_set=False)

    def tag_field(self, catalog: Catalog, asked: Asked) -> Answer:
        """`POST /namespaces/{namespace}/datasets/{dataset}/fields/{field}/tags/{tag}`."""
        return self._tag(catalog, asked, "dataset", _field(catalog, asked), asked.parts[3].upper(), is_set=True)

    def untag_field(self, catalog: Catalog, asked: Asked) -> Answer:
        """`DELETE /namespaces/{namespace}/datasets/{dataset}/fields/{field}/tags/{tag}`."""
        return self._tag(catalog, asked, "dataset", _field(catalog, asked), asked.parts[3].upper(), is_set=False)

    def tag_job(self, catalog: Catalog, asked: Asked) -> Answer:
        """`POST /namespaces/{namespace}/jobs/{job}/tags/{tag}`."""
        return self._tag(catalog, asked, "job", None, asked.parts[2], is_set=True)

    def untag_job(self, catalog: Catalog, asked: Asked) -> Answer:
        """`DELETE /namespaces/{namespace}/jobs/{job}/tags/{tag}`."""
        return self._tag(catalog, asked, "job", None, asked.parts[2], is_set=False)

    def _tag(self, catalog: Catalog, asked: Asked, kind: str, field: str | None, tag: str, *, is_set: bool) -> Answer:
        required: Callable[[Catalog, Asked], object] = required_dataset if kind == "dataset" else required_job
        required(catalog, asked)
        name: Name = asked.parts[0], asked.parts[1]
        known: TagsNote = catalog.notes.tags_note(kind, *name)
        note = known.with_tag((field, tag)) if is_set else known.without_tag((field, tag))
        self._note(catalog, ("tags", kind, *name), note)
        if kind == "job":
            return answer(job_shape(required_job(catalog, asked)))
        return answer(dataset_shape(required_dataset(catalog, asked)))

    def _show(self, catalog: Catalog, *identity: str) -> None:
        if catalog.notes.hidden_namespace(identity[1]) is not None:
            self._note(catalog, ("hidden", *identity), HiddenNote(is_hidden=False))

    def _note(self, catalog: Catalog, identity: tuple[str, ...], note: Struct) -> None:
        notes = [(note_key(*identity), note_body(note))]
        received = Received(Stream.OPENLINEAGE, _SOURCE, note_event(notes))
        self._store(received)
        self._pending.add(event_id(stored_body(received.body)), notes)
        catalog.forget_notes()


def left_out(_: Catalog, __: Asked) -> NoReturn:
    """What Marquez has deprecated."""
    raise Refusal(405, _SEND_EVENTS)


def _body(asked: Asked, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(asked.body, type=kind)
    except msgspec.ValidationError as fault:
        raise Refusal(422, str(fault), is_invalid=True) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal(400, "Unable to process JSON") from None


def _namespace(catalog: Catalog, name: str) -> Namespace:
    found = next((one for one in catalog.namespaces() if one.name == name), None)
    if found is None:
        raise not_found("Namespace", name)
    return found


def _field(catalog: Catalog, asked: Asked) -> str:
    dataset: Dataset = required_dataset(catalog, asked)
    name = asked.parts[2]
    if all(field.name != name for field in dataset.fields):
        raise Refusal(404, f"Field '{name}' not found for dataset '{dataset.name}'.")
    return name
