"""References and metadata of large facets: their bodies do not pass through the JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from clew.lake.facet_places import LargeFacetInfo, inspect_facet

# Name of the cached DataFrame.
LARGE_FACET_INFO: Final = "large_facet_info"
# Metadata of a large facet; null for inline facets.
_INFO_COLUMNS: Final = {
    "text_md5": "string",
    "is_deletion": "boolean",
    "has_row_count": "boolean",
    "has_entries": "boolean",
}
_SCHEMA: Final = f"uuid string, facet_ref string, {', '.join(map(' '.join, _INFO_COLUMNS.items()))}"


def large_facet_info(facet_tables: Iterable[DataFrame], refs: DataFrame) -> DataFrame:
    """Build one row per large facet with its reference and metadata; each body is read once, by a worker."""
    large_facets = (
        table.where(F.col("large_facet_bytes").isNotNull()).select("uuid", "name") for table in facet_tables
    )
    inspected = (
        reduce(DataFrame.unionByName, large_facets).join(refs, "uuid", how="inner").mapInArrow(_inspect_facets, _SCHEMA)
    )
    # Equal texts share one reference, so that each is parsed once.
    facet_ref = F.min("facet_ref").over(Window.partitionBy("text_md5"))
    return inspected.select("uuid", facet_ref.alias("body"), *_INFO_COLUMNS)


def with_facet_refs(facets: DataFrame, info: DataFrame) -> DataFrame:
    """Replace the null facets of a facet table by references."""
    joined = facets.join(F.broadcast(info), "uuid", how="left")
    return joined.withColumn("facet", F.coalesce("facet", "body")).drop("body")


def with_null_facet_info(facets: DataFrame) -> DataFrame:
    """Add null metadata columns to the facet table of a lake without large facets."""
    return facets.withColumns({name: F.lit(None).cast(kind) for name, kind in _INFO_COLUMNS.items()})


def _inspect_facets(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        uuids, names, refs = (batch.column(name) for name in ("uuid", "name", "facet_ref"))
        info = [inspect_facet(name.as_py(), facet_ref.as_py()) for name, facet_ref in zip(names, refs, strict=True)]
        columns = zip(*info, strict=True) if info else [[]] * len(LargeFacetInfo._fields)
        yield pa.RecordBatch.from_pydict(
            {"uuid": uuids, "facet_ref": refs, **dict(zip(LargeFacetInfo._fields, columns, strict=True))}
        )
