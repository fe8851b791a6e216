"""The columns of a dataset, as its schema and its lineage tell of them."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from clew.index.reader import IndexReader
from clew.query.model import Dataset, Field


class _SchemaFacet(Struct):
    fields: list[Field] | None = None


_decode_schema = msgspec.json.Decoder(_SchemaFacet).decode


def schema_fields(index: IndexReader, dataset: Dataset, version: str | None) -> tuple[Field, ...]:
    """The fields of a version's schema facet; none where it has no such facet, or a flawed one."""
    facet = index.dataset_facet(dataset.namespace, dataset.name, version, "schema")
    try:
        return () if facet is None else tuple(_decode_schema(facet).fields or ())
    except msgspec.DecodeError:
        return ()


def column_names(index: IndexReader, dataset: Dataset) -> list[str]:
    """All columns that are known of a dataset: those of its last schema first."""
    versions = dict.fromkeys((index.last_version(dataset.namespace, dataset.name), None))
    stated = [field.name for version in versions for field in schema_fields(index, dataset, version)]
    return list(dict.fromkeys([*stated, *index.columns(dataset.namespace, dataset.name)]))
