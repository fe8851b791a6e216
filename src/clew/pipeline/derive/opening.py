"""Facets opened on the workers: columns and rows in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from clew.lake.facet_columns import Listing, Reading, with_rows, with_values


def opened(facets: DataFrame, readings: Mapping[str, Reading]) -> DataFrame:
    """The columns that hold facets replaced by what the facets say."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (with_values(batch, readings) for batch in batches)

    columns = [column for reading in readings.values() for column in reading.columns]
    return facets.mapInArrow(read, _schema(facets, set(readings), columns))


def listed(facets: DataFrame, column: str, listing: Listing) -> DataFrame:
    """One row for each that the facets of a column list."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (with_rows(batch, column, listing) for batch in batches)

    return facets.mapInArrow(read, _schema(facets, {column}, list(listing.columns)))


def _schema(rows: DataFrame, gone: set[str], added: list[tuple[str, pa.DataType]]) -> StructType:
    kept = [field for field in rows.schema.fields if field.name not in gone]
    return StructType([*kept, *from_arrow_schema(pa.schema(added)).fields])
