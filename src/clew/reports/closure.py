"""Transitive closure of a graph in Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def transitive_closure(starts: DataFrame, edges: DataFrame, depth: int) -> DataFrame:
    """Compute the nodes reachable from each start and their minimum distance.

    `starts` has the column `node`, `edges` has `node` and `next`; the result has `start`, `node` and `distance`.
    """
    frontier = starts.select(F.col("node").alias("start"), "node").distinct().withColumn("distance", F.lit(0))
    reachable = frontier
    steps = edges.select("node", "next").distinct().cache()
    for distance in range(1, depth + 1):
        # Without the checkpoint, the plan of each hop would contain the plans of all previous hops twice.
        frontier = (
            frontier.join(steps, "node", "inner")
            .select("start", F.col("next").alias("node"), F.lit(distance).alias("distance"))
            .distinct()
            .join(reachable, ["start", "node"], "left_anti")
            .localCheckpoint()
        )
        if frontier.isEmpty():
            break
        reachable = reachable.unionByName(frontier)
    return reachable.where("distance > 0")
