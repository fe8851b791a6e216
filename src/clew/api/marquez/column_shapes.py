"""`columnLineage` of a dataset, in Marquez's format."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import Raw, Struct

from clew.query.catalog import model

Columns = tuple[model.ColumnSources, ...]

# Column lineage rarely changes between runs. Wide tables are not cached, to save memory.
_MAX_CACHED = 4096
_MAX_CACHED_COLUMNS = 100


class InputFieldSchema(Struct, frozen=True, rename="camel"):
    """Source column; `transformations` is an extension of clew."""

    namespace: str
    dataset: str
    field: str
    transformation_description: str | None
    transformation_type: str | None
    transformations: tuple[model.ColumnTransformation, ...]


class ColumnLineageSchema(Struct, frozen=True, rename="camel"):
    """Column with its source columns."""

    name: str
    input_fields: list[InputFieldSchema]
    transformation_description: str | None
    transformation_type: str | None


def format_column_lineage(columns: Columns) -> Raw | None:
    """Encode columns with their sources; None if there are none."""
    if not columns:
        return None
    return _encode_cached(columns) if len(columns) <= _MAX_CACHED_COLUMNS else _encode(columns)


def marquez_transformation_type(transformation: model.ColumnTransformation) -> str:
    """Return Marquez's transformationType."""
    return "MASKED" if transformation.masking else transformation.subtype or transformation.type


def _encode(columns: Columns) -> Raw:
    return Raw(msgspec.json.encode([_column(column) for column in columns]))


_encode_cached = lru_cache(_MAX_CACHED)(_encode)


def _column(column: model.ColumnSources) -> ColumnLineageSchema:
    fields = [_input_field(source) for source in column.sources]
    return ColumnLineageSchema(column.name, fields, fields[0].transformation_description, fields[0].transformation_type)


def _input_field(source: model.SourceColumn) -> InputFieldSchema:
    """Convert a source column; Marquez's fields describe its first transformation."""
    first = source.transformations[0] if source.transformations else None
    return InputFieldSchema(
        source.namespace,
        source.dataset,
        source.field,
        None if first is None else first.description,
        None if first is None else marquez_transformation_type(first),
        source.transformations,
    )
