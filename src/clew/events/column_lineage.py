"""Parser of the columnLineage facet: one `ColumnEdge` per source and transformation."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from clew.events.documents import decode_optional


class ColumnEdge(Struct, frozen=True):
    """An edge from a source column to a column; `column` is None for edges to the whole dataset."""

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
    # Before facet version 1-2-0 the transformation was a property of the column, not of each source.
    transformation_type: str | None = None
    transformation_description: str | None = None


class _ColumnLineage(Struct):
    fields: dict[str, _OutputField] | None = None
    dataset: list[_InputField] | None = None


_decode = msgspec.json.Decoder(_ColumnLineage).decode
_decode_input = msgspec.json.Decoder(_InputField).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_str = msgspec.json.Decoder(str).decode
_DIRECT = "DIRECT"
_MASKED = "MASKED"
# Transformation of a source that lists none: DIRECT, without a subtype.
_DEFAULT_TRANSFORMATIONS = [_Transformation()]


def parse_column_lineage(facet: bytes | str) -> Iterator[ColumnEdge]:
    """Yield the edges of a facet; malformed parts are skipped."""
    try:
        lineage = _decode(facet)
    except msgspec.ValidationError:
        lineage = _decode_lenient(Raw(facet))
    for column, output in (lineage.fields or {}).items():
        default = _column_transformations(output)
        for source in output.input_fields or ():
            yield from _source_edges(column, source, default)
    for source in lineage.dataset or ():
        yield from _source_edges(None, source, _DEFAULT_TRANSFORMATIONS)


def _decode_lenient(facet: Raw) -> _ColumnLineage:
    """Decode all valid sources of a malformed facet."""
    members = decode_optional(facet, _decode_object) or {}
    outputs = decode_optional(members.get("fields"), _decode_object) or {}
    fields = {column: decode_optional(raw, _decode_object) or {} for column, raw in outputs.items()}
    return _ColumnLineage(
        fields={column: _output(output) for column, output in fields.items()},
        dataset=_inputs(members.get("dataset")),
    )


def _output(members: dict[str, Raw]) -> _OutputField:
    return _OutputField(
        _inputs(members.get("inputFields")),
        decode_optional(members.get("transformationType"), _decode_str),
        decode_optional(members.get("transformationDescription"), _decode_str),
    )


def _inputs(raw: Raw | None) -> list[_InputField]:
    items = decode_optional(raw, _decode_list) or []
    return [source for item in items if (source := decode_optional(item, _decode_input)) is not None]


def _column_transformations(output: _OutputField) -> list[_Transformation]:
    """Return the transformations of sources that list none themselves."""
    kind, description = output.transformation_type, output.transformation_description
    if not kind and not description:
        return _DEFAULT_TRANSFORMATIONS
    is_masked = kind == _MASKED
    return [_Transformation(None, None if is_masked else kind, description, True if is_masked else None)]


def _source_edges(column: str | None, source: _InputField, default: list[_Transformation]) -> Iterator[ColumnEdge]:
    for transformation in source.transformations or default:
        yield ColumnEdge(
            column,
            source.namespace,
            source.name,
            source.field,
            transformation.type or _DIRECT,
            transformation.subtype,
            transformation.description,
            transformation.masking,
        )
