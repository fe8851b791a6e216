"""The columnLineage facet, taken apart into one value per edge."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from clew.events.documents import part


class StatedEdge(Struct, frozen=True):
    """That a source column takes part in a column; `column` is None for what holds for the whole output."""

    column: str | None
    source_namespace: str
    source_name: str
    source_column: str | None
    type: str
    subtype: str | None
    description: str | None
    masking: bool | None


class _Transformation(Struct):
    type: str | None = None
    subtype: str | None = None
    description: str | None = None
    masking: bool | None = None


class _InputField(Struct):
    namespace: str
    name: str
    field: str | None = None
    transformations: list[_Transformation] | None = None


class _OutputField(Struct, rename="camel"):
    input_fields: list[_InputField] | None = None
    # Before facet version 1-2-0 it was said of the column how it is made, not of each source.
    transformation_type: str | None = None
    transformation_description: str | None = None


class _ColumnLineage(Struct):
    fields: dict[str, _OutputField] | None = None
    dataset: list[_InputField] | None = None


_decode = msgspec.json.Decoder(_ColumnLineage).decode
_decode_input = msgspec.json.Decoder(_InputField).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_text = msgspec.json.Decoder(str).decode
_DIRECT = "DIRECT"
_MASKED = "MASKED"
# The value flows, how is not said.
_UNSAID = [_Transformation()]


def edges_of(facet: bytes | str) -> Iterator[StatedEdge]:
    """The edges that a facet states; what is not of the facet's shape states none."""
    try:
        lineage = _decode(facet)
    except msgspec.ValidationError:
        lineage = _salvage(Raw(facet))
    for column, output in (lineage.fields or {}).items():
        unsaid = _said_of_column(output)
        for source in output.input_fields or ():
            yield from _transformed(column, source, unsaid)
    for source in lineage.dataset or ():
        yield from _transformed(None, source, _UNSAID)


def _salvage(facet: Raw) -> _ColumnLineage:
    """Keep all sources that are sound."""
    parts = part(facet, _decode_object) or {}
    outputs = part(parts.get("fields"), _decode_object) or {}
    fields = {column: part(raw, _decode_object) or {} for column, raw in outputs.items()}
    return _ColumnLineage(
        fields={column: _output(output) for column, output in fields.items()},
        dataset=_inputs(parts.get("dataset")),
    )


def _output(parts: dict[str, Raw]) -> _OutputField:
    return _OutputField(
        _inputs(parts.get("inputFields")),
        part(parts.get("transformationType"), _decode_text),
        part(parts.get("transformationDescription"), _decode_text),
    )


def _inputs(raw: Raw | None) -> list[_InputField]:
    items = part(raw, _decode_list) or []
    return [source for item in items if (source := part(item, _decode_input)) is not None]


def _said_of_column(output: _OutputField) -> list[_Transformation]:
    """How sources that say nothing of their own take part."""
    kind, description = output.transformation_type, output.transformation_description
    if not kind and not description:
        return _UNSAID
    is_masked = kind == _MASKED
    return [_Transformation(None, None if is_masked else kind, description, True if is_masked else None)]


def _transformed(column: str | None, source: _InputField, unsaid: list[_Transformation]) -> Iterator[StatedEdge]:
    for how in source.transformations or unsaid:
        yield StatedEdge(
            column,
            source.namespace,
            source.name,
            source.field,
            how.type or _DIRECT,
            how.subtype,
            how.description,
            how.masking,
        )
