"""User annotations: tags, descriptions and soft deletes.

Annotations are stored as facets of one internal dataset, one facet each. They are events in the log, so they survive
a rebuild of the index, and a later annotation replaces the earlier one. Tags sent by producers do not override them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final, Generic, TypeVar
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw, Struct

from clew.events.facets import Tag, parse_tags
from clew.events.openlineage import ANNOTATIONS_NAME, ANNOTATIONS_NAMESPACE
from clew.index.encoding import DELETED, StoredFacet
from clew.index.queries.entities import Facets, Name
from clew.index.queries.lists import HiddenUntil
from clew.index.queries.reader import IndexReader
from clew.index.visibility import NameMask
from clew.query.entities.model import TagDefinition
from clew.query.model import from_epoch_micros

_PRODUCER = "https://github.com/clew-lineage/clew/annotations"
_FACET_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/DatasetFacet"
_EVENT_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/DatasetEvent"
_PREFIX = "clew_annotation"

# A column, or None for the entity itself, and the tag.
_Tagged = tuple[str | None, str]
T = TypeVar("T", bound=Struct)
_Timed = TypeVar("_Timed", "NamespaceAnnotation", "SourceAnnotation")


class TagDescription(Struct, frozen=True):
    """Definition of a tag."""

    description: str | None = None


class TagAnnotation(Struct, frozen=True):
    """Tags added to a job or dataset by users, and tags of producers that users removed."""

    added: tuple[_Tagged, ...] = ()
    removed: tuple[_Tagged, ...] = ()

    def with_tag(self, tagged: _Tagged) -> TagAnnotation:
        """Return a copy with a tag added."""
        return TagAnnotation(tuple(dict.fromkeys((*self.added, tagged))), _without(self.removed, tagged))

    def without_tag(self, tagged: _Tagged) -> TagAnnotation:
        """Return a copy with a tag removed."""
        return TagAnnotation(_without(self.added, tagged), tuple(dict.fromkeys((*self.removed, tagged))))


class NamespaceAnnotation(Struct, frozen=True, omit_defaults=True):
    """Owner and description of a namespace, and the times of the first and the last change."""

    owner: str
    description: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


class SourceAnnotation(Struct, frozen=True, omit_defaults=True):
    """A data source defined by a user, and the times of the first and the last change."""

    type: str
    url: str
    description: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


class SoftDelete(Struct, frozen=True):
    """Hides a job, dataset or namespace until the next event about it."""

    is_hidden: bool = True


class _Facet(Struct, Generic[T]):
    annotation: T


class Annotations:
    """All annotations, including those that are not in the index yet; with a mask, those of visible namespaces."""

    def __init__(
        self,
        stored: Iterable[StoredFacet],
        unindexed: Iterable[tuple[str, bytes, int]] = (),
        mask: NameMask | None = None,
    ) -> None:
        facets = {
            facet.name: (facet.seq, facet.body, facet.event_time) for facet in stored if facet.name.startswith(_PREFIX)
        }
        facets |= {key: (position, body, 0) for key, body, position in unindexed}
        annotations = {tuple(_parse_key(key)): facet for key, facet in facets.items() if facet[1] != DELETED}
        self._annotations = {
            identity: facet for identity, facet in annotations.items() if mask is None or _is_visible(identity, mask)
        }
        self._hidden: dict[str, list[HiddenUntil]] = {}

    def tag_definitions(self) -> list[TagDefinition]:
        """Return the tags that users defined or set, by name."""
        descriptions: dict[str, str | None] = {}
        for identity in self._annotations:
            if identity[0] == "tags":
                descriptions |= {tag: descriptions.get(tag) for _, tag in self.tag_annotation(*identity[1:]).added}
        for kind, *rest in self._annotations:
            if kind == "tag":
                definition = self._read(TagDescription, kind, *rest)
                descriptions[str(rest[0])] = None if definition is None else definition.description
        return [TagDefinition(*item) for item in sorted(descriptions.items())]

    def tag_annotation(self, *identity: str) -> TagAnnotation:
        """Return the tag changes that users made to a job or dataset."""
        return self._read(TagAnnotation, "tags", *identity) or TagAnnotation()

    def tags_on(self, kind: str, name: Name, facets: Facets) -> tuple[Tag, ...]:
        """Merge the tags that producers send for a job or dataset with those that users set."""
        facet = facets.get("tags")
        sent = parse_tags(bytes(facet)) if facet is not None else []
        if ("tags", kind, *name) not in self._annotations:
            return tuple(sent)
        annotation = self.tag_annotation(kind, *name)
        remaining = [tag for tag in sent if (tag.field, tag.key) not in annotation.removed]
        existing = {(tag.field, tag.key) for tag in remaining}
        added = (Tag(*tagged, None, None) for tagged in annotation.added if tagged not in existing)
        return (*remaining, *added)

    def namespace(self, name: str) -> NamespaceAnnotation | None:
        """Return the annotation of a namespace."""
        return self._with_times(NamespaceAnnotation, "namespace", name)

    def namespaces(self) -> list[str]:
        """Return the annotated namespaces."""
        return [identity[1] for identity in self._annotations if identity[0] == "namespace"]

    def sources(self) -> dict[str, SourceAnnotation]:
        """Return the data sources that users defined, by name."""
        sources = {
            identity[1]: self._with_times(SourceAnnotation, *identity)
            for identity in self._annotations
            if identity[0] == "source"
        }
        return {name: source for name, source in sources.items() if source is not None}

    def hidden(self, kind: str) -> list[HiddenUntil]:
        """Return the hidden jobs or datasets, each until an event after a position."""
        if kind not in self._hidden:
            self._hidden[kind] = [
                HiddenUntil(identity[2], identity[3] if len(identity) > 3 else None, seq)
                for identity, (seq, *_) in self._annotations.items()
                if identity[0] == "hidden" and identity[1] in {kind, "namespace"} and self._is_hidden(identity)
            ]
        return self._hidden[kind]

    def deleted(self) -> Iterator[tuple[str, str, str]]:
        """Yield kind, namespace and name of the jobs and datasets that users have deleted."""
        for identity in self._annotations:
            match identity:
                case ("hidden", "job" | "dataset" as kind, namespace, name) if self._is_hidden(identity):
                    yield kind, namespace, name

    def hidden_namespace(self, name: str) -> int | None:
        """Return the position at which a namespace was hidden; None if it is visible."""
        facet = self._annotations.get(("hidden", "namespace", name))
        return None if facet is None or not self._is_hidden(("hidden", "namespace", name)) else facet[0]

    def _is_hidden(self, identity: tuple[str, ...]) -> bool:
        annotation = self._read(SoftDelete, *identity)
        return annotation is not None and annotation.is_hidden

    def _with_times(self, kind: type[_Timed], *identity: str) -> _Timed | None:
        """Read an annotation; those of earlier releases have no times but that of their event."""
        annotation = self._read(kind, *identity)
        if annotation is None or annotation.created_at is not None:
            return annotation
        at = from_epoch_micros(self._annotations[identity][2])
        return msgspec.structs.replace(annotation, created_at=at, updated_at=at)

    def _read(self, kind: type[T], *identity: str) -> T | None:
        facet = self._annotations.get(identity)
        try:
            return None if facet is None else msgspec.json.decode(facet[1], type=_Facet[kind]).annotation  # type: ignore[valid-type]
        except msgspec.DecodeError:
            return None


NO_ANNOTATIONS: Final = Annotations(())
# By reader: the version of its data, and the annotations. There may be many, of which a query needs one.
_CACHE: Final[WeakKeyDictionary[IndexReader, tuple[object, Annotations]]] = WeakKeyDictionary()


def read_annotations(index: IndexReader) -> Annotations:
    """Read the annotations that an index has."""
    data_version, cached = index.data_version(), _CACHE.get(index)
    if cached is None or cached[0] != data_version:
        stored = index.stored_facets("dataset", ANNOTATIONS_NAMESPACE, ANNOTATIONS_NAME, None)
        cached = _CACHE[index] = data_version, Annotations(stored, mask=index.mask)
    return cached[1]


def _is_visible(identity: tuple[str, ...], mask: NameMask) -> bool:
    """Return whether the annotated entity is visible. Sources have no namespace and belong to nobody."""
    match identity:
        case ("tag", _):
            return True
        case ("namespace", namespace) | ("tags" | "hidden", _, namespace, *_):
            return mask.is_visible(namespace)
        case _:
            return False


def _parse_key(key: str) -> list[str]:
    try:
        return msgspec.json.decode(key.removeprefix(_PREFIX), type=list[str])
    except msgspec.DecodeError:
        return [key]


def _without(tags: tuple[_Tagged, ...], removed: _Tagged) -> tuple[_Tagged, ...]:
    return tuple(tag for tag in tags if tag != removed)


def annotation_key(*identity: str) -> str:
    """Return the facet name of an annotation."""
    return _PREFIX + msgspec.json.encode(identity).decode()


def annotation_body(annotation: Struct) -> bytes:
    """Return the facet of an annotation."""
    return msgspec.json.encode({"_producer": _PRODUCER, "_schemaURL": _FACET_SCHEMA, "annotation": annotation})


def annotation_event(annotations: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the DatasetEvent that stores annotations in the log."""
    event = {
        "eventTime": datetime.now(UTC).isoformat(timespec="microseconds"),
        "dataset": {
            "namespace": ANNOTATIONS_NAMESPACE,
            "name": ANNOTATIONS_NAME,
            "facets": {key: Raw(body) for key, body in annotations},
        },
        "producer": _PRODUCER,
        "schemaURL": _EVENT_SCHEMA,
    }
    return msgspec.json.encode(event)
