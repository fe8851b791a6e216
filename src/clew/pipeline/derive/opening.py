"""Parsing of facets into columns and rows on the workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from clew.lake.facet_columns import FacetExploder, FacetParser, explode_rows, parse_columns
from clew.lake.facet_places import REF_MARKER


def parse_facets(facets: DataFrame, parsers: Mapping[str, FacetParser]) -> DataFrame:
    """Replace facet columns by their parsed columns."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (parse_columns(part, parsers) for batch in batches for part in _split_at_large_facets(batch, parsers))

    columns = [column for parser in parsers.values() for column in parser.columns]
    return facets.mapInArrow(read, _schema(facets, set(parsers), columns))


def explode_facet(facets: DataFrame, column: str, exploder: FacetExploder) -> DataFrame:
    """Replace a facet column by one row per item of the facet."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (
            explode_rows(part, column, exploder)
            for batch in batches
            for part in _split_at_large_facets(batch, [column])
        )

    return facets.mapInArrow(read, _schema(facets, {column}, list(exploder.columns)))


def _split_at_large_facets(batch: pa.RecordBatch, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Split a batch after each row with a large facet, so that only one is in memory at a time."""
    are_refs = [pc.match_substring(batch.column(column), REF_MARKER).fill_null(False) for column in columns]  # noqa: FBT003
    cuts = [index + 1 for index in pc.indices_nonzero(reduce(pc.or_, are_refs)).to_pylist()]
    for start, end in pairwise(sorted({0, *cuts, batch.num_rows})):
        yield batch.slice(start, end - start)


def _schema(rows: DataFrame, dropped: set[str], added: list[tuple[str, pa.DataType]]) -> StructType:
    retained = [field for field in rows.schema.fields if field.name not in dropped]
    return StructType([*retained, *from_arrow_schema(pa.schema(added)).fields])
