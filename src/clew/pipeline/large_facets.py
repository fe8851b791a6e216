"""Facet tables with large facets in their place again."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def made_whole(facets: DataFrame, large_facets: DataFrame) -> DataFrame:
    """A facet table whose every row has its facet, be it kept out of line."""
    # Two reads, of which the second skips every row group without a large facet, instead of a shuffle of all rows.
    inline = facets.where(F.col("facet_bytes").isNull())
    bodies = large_facets.select("uuid", "facet")
    apart = facets.where(F.col("facet_bytes").isNotNull()).drop("facet").join(bodies, "uuid", how="left")
    return inline.unionByName(apart)
