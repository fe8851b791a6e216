"""How far a graph can be followed, hop by hop."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def reached(starts: DataFrame, edges: DataFrame, depth: int) -> DataFrame:
    """Which nodes can be reached from each start, and in how many hops at least.

    `starts` has a column `node`, `edges` have `node` and `next`; the rows have `start`, `node` and `distance`.
    """
    frontier = starts.select(F.col("node").alias("start"), "node").distinct().withColumn("distance", F.lit(0))
    found = frontier
    steps = edges.select("node", "next").distinct().cache()
    for distance in range(1, depth + 1):
        # Else the plan of each hop would hold the plans of all hops before it, twice over.
        frontier = (
            frontier.join(steps, "node", "inner")
            .select("start", F.col("next").alias("node"), F.lit(distance).alias("distance"))
            .distinct()
            .join(found, ["start", "node"], "left_anti")
            .localCheckpoint()
        )
        if frontier.isEmpty():
            break
        found = found.unionByName(frontier)
    return found.where("distance > 0")
