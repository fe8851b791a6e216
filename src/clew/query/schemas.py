"""Columns of a dataset, from its schema facet and its lineage."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from clew.index.reader import IndexReader
from clew.query.model import DatasetName, Field


class _SchemaFacet(Struct):
    fields: list[Field] | None = None


_decode_schema = msgspec.json.Decoder(_SchemaFacet).decode


def schema_fields(index: IndexReader, dataset: DatasetName, version: str | None) -> tuple[Field, ...]:
    """Return the fields of a version's schema facet; none if it is missing or malformed."""
    facet = index.dataset_facet(dataset.namespace, dataset.name, version, "schema")
    try:
        return () if facet is None else tuple(_decode_schema(facet).fields or ())
    except msgspec.DecodeError:
        return ()


def column_names(index: IndexReader, dataset: DatasetName) -> list[str]:
    """Return all column names of a dataset: those of its latest schema first, then those in lineage."""
    versions = dict.fromkeys((index.last_version(dataset.namespace, dataset.name), None))
    in_schema = [field.name for version in versions for field in schema_fields(index, dataset, version)]
    return list(dict.fromkeys([*in_schema, *index.columns(dataset.namespace, dataset.name)]))
