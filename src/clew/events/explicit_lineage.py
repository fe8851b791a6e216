"""The lineage facet, of a job or of a dataset: explicit lineage, said from the side of what is fed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from clew.events.column_lineage import StatedEdge
from clew.events.documents import part
from clew.events.facet_values import objects_in, text_in, value_of

FACET: Final = "lineage"
# A facet of a job without it says nothing.
ENTRIES_KEY: Final = '"entries"'
DATASET: Final = "DATASET"
JOB: Final = "JOB"

_decode_parts = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_DIRECT = "DIRECT"
# A source without transformations: the data flows, how is not said.
_UNSAID: list[dict[str, Any]] = [{}]


class Entity(NamedTuple):
    """A dataset or a job that an entry names; a job without a name is the event's own."""

    type: str
    namespace: str | None
    name: str | None


class Entry(NamedTuple):
    """What is said of one target."""

    target: Entity
    body: bytes


def entries_of(facet: bytes) -> list[Entry]:
    """The entries of a job's facet that name a target and say something of it."""
    parts = part(Raw(facet), _decode_parts) or {}
    return [entry for body in part(parts.get("entries"), _decode_list) or () if (entry := _entry(bytes(body)))]


def is_statement(body: bytes) -> bool:
    """Whether an entry, or the facet of a dataset, says anything of what its target is made from.

    Spec: `inputs: []` says that nothing is upstream; with neither inputs nor fields it carries no lineage.
    """
    value = value_of(body)
    return isinstance(value.get("inputs"), list) or bool(_fields(value))


def explicit_edges_of(body: bytes) -> Iterator[StatedEdge]:
    """The edges from datasets that an entry, or the facet of a dataset, states."""
    for column, source in _inputs(value_of(body)):
        entity = _entity(source)
        if entity is not None and entity.type == DATASET:
            yield from _transformed(column, entity, source)


def sources_of(body: bytes) -> list[Entity]:
    """All that feeds the target, each once and in order."""
    found = (_entity(source) for _, source in _inputs(value_of(body)))
    return sorted({entity for entity in found if entity is not None}, key=lambda entity: tuple(map(str, entity)))


def _entry(body: bytes) -> Entry | None:
    target = _entity(value_of(body))
    return Entry(target, body) if target is not None and is_statement(body) else None


def _entity(value: dict[str, Any]) -> Entity | None:
    """A target or a source; None if it is not named as the spec has it."""
    entity = Entity((text_in(value, "type") or DATASET).upper(), text_in(value, "namespace"), text_in(value, "name"))
    is_named = None not in entity
    is_own_job = entity == (JOB, None, None)
    return entity if entity.type in {DATASET, JOB} and (is_named or is_own_job) else None


def _inputs(value: dict[str, Any]) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """Each source, with the column of the target that it feeds; None if it feeds the whole."""
    for source in objects_in(value, "inputs"):
        yield None, source
    for column, field in _fields(value).items():
        for source in objects_in(field, "inputs"):
            yield column, source


def _fields(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    fields = value.get("fields")
    found = fields if isinstance(fields, dict) else {}
    return {column: field for column, field in found.items() if isinstance(field, dict)}


def _transformed(column: str | None, entity: Entity, source: dict[str, Any]) -> Iterator[StatedEdge]:
    for how in objects_in(source, "transformations") or _UNSAID:
        masking = how.get("masking")
        yield StatedEdge(
            column,
            entity.namespace or "",
            entity.name or "",
            text_in(source, "field"),
            text_in(how, "type") or _DIRECT,
            text_in(how, "subtype"),
            text_in(how, "description"),
            masking if isinstance(masking, bool) else None,
        )
