"""Where the columns of a dataset come from, as Marquez writes it in the document of the dataset."""

from __future__ import annotations

from functools import lru_cache

import msgspec
from msgspec import Raw, Struct

from clew.query.catalog import model

Columns = tuple[model.ColumnSources, ...]

# What a job says of its output stays the same from run to run. Very wide tables are not worth the memory.
_MOST_REMEMBERED = 4096
_MOST_COLUMNS_REMEMBERED = 100


class InputFieldShape(Struct, frozen=True, rename="camel"):
    """A column that another came from; `transformations` is what Marquez leaves out."""

    namespace: str
    dataset: str
    field: str
    transformation_description: str | None
    transformation_type: str | None
    transformations: tuple[model.Transformation, ...]


class ColumnLineageShape(Struct, frozen=True, rename="camel"):
    """A column and those that it came from."""

    name: str
    input_fields: list[InputFieldShape]
    transformation_description: str | None
    transformation_type: str | None


def column_lineage(columns: Columns) -> Raw | None:
    """Columns with their sources as JSON; None if nothing is known of them."""
    if not columns:
        return None
    return _remembered(columns) if len(columns) <= _MOST_COLUMNS_REMEMBERED else _encoded(columns)


def transformation_type(how: model.Transformation) -> str:
    """One word for a transformation."""
    return "MASKED" if how.masking else how.subtype or how.type


def _encoded(columns: Columns) -> Raw:
    return Raw(msgspec.json.encode([_column(one) for one in columns]))


_remembered = lru_cache(_MOST_REMEMBERED)(_encoded)


def _column(column: model.ColumnSources) -> ColumnLineageShape:
    fields = [_input_field(source) for source in column.sources]
    return ColumnLineageShape(column.name, fields, fields[0].transformation_description, fields[0].transformation_type)


def _input_field(source: model.SourceColumn) -> InputFieldShape:
    """A source of a column, with what its first transformation says where Marquez has room for one."""
    first = source.transformations[0] if source.transformations else None
    return InputFieldShape(
        source.namespace,
        source.dataset,
        source.field,
        None if first is None else first.description,
        None if first is None else transformation_type(first),
        source.transformations,
    )
