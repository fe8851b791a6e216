"""Facet tables in which a name stands for the body of each large facet: megabytes do not pass through the JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from clew.lake.facet_places import Look, look

# The name under which they are kept until all is derived.
LOOKS: Final = "looks_at_large_facets"
# What steps ask of a facet's text; null where the text itself is there to be asked.
_ASKED: Final = {"text_md5": "string", "is_deletion": "boolean", "says_row_count": "boolean", "says_entries": "boolean"}
_COLUMNS: Final = f"uuid string, place string, {', '.join(map(' '.join, _ASKED.items()))}"


def looks(facet_tables: Iterable[DataFrame], places: DataFrame) -> DataFrame:
    """One row per large facet: the name of its body, and what its text says. Each body is read once, by a worker."""
    apart = (table.where(F.col("facet_bytes").isNotNull()).select("uuid", "name") for table in facet_tables)
    seen = reduce(DataFrame.unionByName, apart).join(places, "uuid", how="inner").mapInArrow(_looks, _COLUMNS)
    # The same text has the same name, so that it can be told apart from others, and is opened once.
    name = F.min("place").over(Window.partitionBy("text_md5"))
    return seen.select("uuid", name.alias("body"), *_ASKED)


def with_names(facets: DataFrame, looks: DataFrame) -> DataFrame:
    """A facet table whose every row has its facet, or the name of its body."""
    known = facets.join(F.broadcast(looks), "uuid", how="left")
    return known.withColumn("facet", F.coalesce("facet", "body")).drop("body")


def with_nothing_apart(facets: DataFrame) -> DataFrame:
    """The same, of a lake that has no large facets."""
    return facets.withColumns({name: F.lit(None).cast(kind) for name, kind in _ASKED.items()})


def _looks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        uuids, names, places = (batch.column(name) for name in ("uuid", "name", "place"))
        found = [look(name.as_py(), place.as_py()) for name, place in zip(names, places, strict=True)]
        columns = zip(*found, strict=True) if found else [[]] * len(Look._fields)
        yield pa.RecordBatch.from_pydict(
            {"uuid": uuids, "place": places, **dict(zip(Look._fields, columns, strict=True))}
        )
