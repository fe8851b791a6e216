"""What people note by hand: tags, descriptions, and what they do not want to see.

Notes are facets of one dataset that stands for the catalogue itself, one facet for each thing that is noted. So they
are events in the log like any other, they come back when the index is built anew, and a later note replaces the
earlier one whole. Producers that send tags with every run do not undo what a person has set.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from clew.events.labels import tags_of
from clew.index.bodies import DELETED, StoredFacet
from clew.index.catalog import Hidden
from clew.index.notes import NAME, NAMESPACE
from clew.query.catalog.model import Facets, Name, Tag

# While a note is not in the index, it counts as later than all that is.
_LAST = 2**62
_PRODUCER = "https://github.com/clew-lineage/clew/notes"
_FACET_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/DatasetFacet"
_EVENT_SCHEMA = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/DatasetEvent"
_PREFIX = "clew_note"

# A column, or None for the whole, and the tag.
_Tagged = tuple[str | None, str]
T = TypeVar("T", bound=Struct)


class TagNote(Struct, frozen=True):
    """That there is a tag."""

    description: str | None = None


class TagsNote(Struct, frozen=True):
    """Which tags a job or a dataset was given, and which of those that its producers send were taken off."""

    added: tuple[_Tagged, ...] = ()
    removed: tuple[_Tagged, ...] = ()

    def with_tag(self, tagged: _Tagged) -> TagsNote:
        """The same, and one tag more."""
        return TagsNote(tuple(dict.fromkeys((*self.added, tagged))), _without(self.removed, tagged))

    def without_tag(self, tagged: _Tagged) -> TagsNote:
        """The same, and one tag less."""
        return TagsNote(_without(self.added, tagged), tuple(dict.fromkeys((*self.removed, tagged))))


class NamespaceNote(Struct, frozen=True):
    """Whose a namespace is, and what it is for."""

    owner: str
    description: str | None = None


class SourceNote(Struct, frozen=True):
    """A source of data."""

    type: str
    url: str
    description: str | None = None


class HiddenNote(Struct, frozen=True):
    """That a job, a dataset or a namespace is not shown until an event tells of it again."""

    is_hidden: bool = True


class _Facet(Struct, Generic[T]):
    note: T


class Tags(Struct, frozen=True):
    """The tags of a job or a dataset: on the whole, and on its columns."""

    whole: tuple[str, ...] = ()
    fields: dict[str, tuple[str, ...]] = {}


class Notes:
    """All notes, with those that were just taken and are not in the index yet."""

    def __init__(self, stored: Iterable[StoredFacet], pending: Iterable[tuple[str, bytes]] = ()) -> None:
        facets = {one.name: (one.seq, one.body) for one in stored if one.name.startswith(_PREFIX)}
        facets |= {key: (_LAST, body) for key, body in pending}
        self._notes = {tuple(_identity(key)): found for key, found in facets.items() if found[1] != DELETED}
        self._hidden: dict[str, list[Hidden]] = {}

    def tag_names(self) -> list[Tag]:
        """Tags that people made or set, by name."""
        found: dict[str, str | None] = {}
        for identity in self._notes:
            if identity[0] == "tags":
                found |= {tag: found.get(tag) for _, tag in self.tags_note(*identity[1:]).added}
        for kind, *rest in self._notes:
            if kind == "tag":
                note = self._read(TagNote, kind, *rest)
                found[str(rest[0])] = None if note is None else note.description
        return [Tag(*one) for one in sorted(found.items())]

    def tags_note(self, *identity: str) -> TagsNote:
        """What was set by hand on a job or a dataset."""
        return self._read(TagsNote, "tags", *identity) or TagsNote()

    def tags_on(self, kind: str, name: Name, facets: Facets) -> Tags:
        """The tags of a job or a dataset: those that its producers send, and those that people set."""
        facet, key = facets.get("tags"), ("tags", kind, *name)
        if facet is None and key not in self._notes:
            return Tags()
        note = self.tags_note(kind, *name)
        sent = [(tag.field, tag.key) for tag in tags_of(bytes(facet))] if facet is not None else []
        tagged = dict.fromkeys((*(one for one in sent if one not in note.removed), *note.added))
        fields: defaultdict[str, list[str]] = defaultdict(list)
        for field, tag in tagged:
            if field is not None:
                fields[field].append(tag)
        whole = sorted(tag for field, tag in tagged if field is None)
        return Tags(tuple(whole), {field: tuple(sorted(found)) for field, found in fields.items()})

    def namespace(self, name: str) -> NamespaceNote | None:
        """What was noted of a namespace."""
        return self._read(NamespaceNote, "namespace", name)

    def namespaces(self) -> list[str]:
        """Namespaces of which something was noted."""
        return [identity[1] for identity in self._notes if identity[0] == "namespace"]

    def sources(self) -> dict[str, SourceNote]:
        """Sources that were made by hand."""
        found = {identity[1]: self._read(SourceNote, *identity) for identity in self._notes if identity[0] == "source"}
        return {name: note for name, note in found.items() if note is not None}

    def hidden(self, kind: str) -> list[Hidden]:
        """Jobs or datasets that are not shown, each until an event after a position tells of it."""
        if kind not in self._hidden:
            self._hidden[kind] = [
                Hidden(identity[2], identity[3] if len(identity) > 3 else None, seq)
                for identity, (seq, _) in self._notes.items()
                if identity[0] == "hidden" and identity[1] in {kind, "namespace"} and self._is_hidden(identity)
            ]
        return self._hidden[kind]

    def hidden_namespace(self, name: str) -> int | None:
        """The position from which on a namespace is not shown."""
        found = self._notes.get(("hidden", "namespace", name))
        return None if found is None or not self._is_hidden(("hidden", "namespace", name)) else found[0]

    def _is_hidden(self, identity: tuple[str, ...]) -> bool:
        note = self._read(HiddenNote, *identity)
        return note is not None and note.is_hidden

    def _read(self, kind: type[T], *identity: str) -> T | None:
        found = self._notes.get(identity)
        try:
            return None if found is None else msgspec.json.decode(found[1], type=_Facet[kind]).note  # type: ignore[valid-type]
        except msgspec.DecodeError:
            return None


def _identity(key: str) -> list[str]:
    try:
        return msgspec.json.decode(key.removeprefix(_PREFIX), type=list[str])
    except msgspec.DecodeError:
        return [key]


def _without(tagged: tuple[_Tagged, ...], one: _Tagged) -> tuple[_Tagged, ...]:
    return tuple(other for other in tagged if other != one)


def note_key(*identity: str) -> str:
    """The name of the facet that notes something of something."""
    return _PREFIX + msgspec.json.encode(identity).decode()


def note_body(note: Struct) -> bytes:
    """The facet that notes something."""
    return msgspec.json.encode({"_producer": _PRODUCER, "_schemaURL": _FACET_SCHEMA, "note": note})


def note_event(notes: Iterable[tuple[str, bytes]]) -> bytes:
    """The event that brings notes into the log."""
    event = {
        "eventTime": datetime.now(UTC).isoformat(timespec="microseconds"),
        "dataset": {"namespace": NAMESPACE, "name": NAME, "facets": {key: Raw(body) for key, body in notes}},
        "producer": _PRODUCER,
        "schemaURL": _EVENT_SCHEMA,
    }
    return msgspec.json.encode(event)
