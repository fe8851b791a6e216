"""Facet tables with large facets in their place again."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def made_whole(facets: DataFrame, large_facets: DataFrame) -> DataFrame:
    """A facet table whose every row has its facet, be it kept out of line."""
    inline = facets.where(F.col("facet_bytes").isNull())
    # Two reads instead of a shuffle of all rows, and a broadcast of the few that have no facet instead of one of bodies
    # of megabytes.
    without = F.broadcast(facets.where(F.col("facet_bytes").isNotNull()).drop("facet"))
    return inline.unionByName(without.join(large_facets.select("uuid", "facet"), "uuid"))
