"""Facets opened on the workers: columns and rows in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from clew.lake.facet_columns import Listing, Reading, with_rows, with_values
from clew.lake.facet_places import BEFORE_PLACE


def opened(facets: DataFrame, readings: Mapping[str, Reading]) -> DataFrame:
    """The columns that hold facets replaced by what the facets say."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (with_values(part, readings) for batch in batches for part in _parts(batch, readings))

    columns = [column for reading in readings.values() for column in reading.columns]
    return facets.mapInArrow(read, _schema(facets, set(readings), columns))


def listed(facets: DataFrame, column: str, listing: Listing) -> DataFrame:
    """One row for each that the facets of a column list."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (with_rows(part, column, listing) for batch in batches for part in _parts(batch, [column]))

    return facets.mapInArrow(read, _schema(facets, {column}, list(listing.columns)))


def _parts(batch: pa.RecordBatch, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The rows, cut behind each that stands for a body of megabytes: no two are held at a time."""
    names = [pc.match_substring(batch.column(column), BEFORE_PLACE).fill_null(False) for column in columns]  # noqa: FBT003
    cuts = [place + 1 for place in pc.indices_nonzero(reduce(pc.or_, names)).to_pylist()]
    for start, end in pairwise(sorted({0, *cuts, batch.num_rows})):
        yield batch.slice(start, end - start)


def _schema(rows: DataFrame, gone: set[str], added: list[tuple[str, pa.DataType]]) -> StructType:
    kept = [field for field in rows.schema.fields if field.name not in gone]
    return StructType([*kept, *from_arrow_schema(pa.schema(added)).fields])
