"""Rebuild of the index from the events of the lake: workers extract changes, the driver merges them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from clew.home import IndexLocation
from clew.index.building import build_and_swap
from clew.index.changes import ChangeSet
from clew.index.sink import IndexWriter
from clew.lake.delta import Lake
from clew.lake.raw_only import read_backfilled_ranges
from clew.lake.recorded import RowGroupPartition, plan_partitions, sample_facets
from clew.pipeline.faults import translate_spark_errors
from clew.pipeline.index_thread import AsyncIndexWriter
from clew.pipeline.rebuild_worker import RebuildWorker
from clew.pipeline.saying import ProgressCallback, no_progress
from clew.pipeline.side_by_side import map_ordered
from clew.pipeline.telling import run_tasks

BATCH_PREFIX: Final = "rebuild"


def rebuild_index(
    spark: SparkSession, lake: Lake, location: IndexLocation, on_progress: ProgressCallback = no_progress
) -> None:
    """Build a new index and swap it in; an existing index stays readable until then."""
    with build_and_swap(location, lake.facet_order) as index:
        load_index(spark, lake, index, on_progress)


def load_index(
    spark: SparkSession, lake: Lake, index: IndexWriter, on_progress: ProgressCallback = no_progress
) -> None:
    """Load all events of the lake into an index; existing rows are preserved."""
    # Read first: a chunk that is finished later is written to the index by the backfill itself.
    backfilled = read_backfilled_ranges(lake)
    index.train_dictionary(sample_facets(lake))

    def extract_changes(partition: RowGroupPartition) -> ChangeSet:
        worker = RebuildWorker(str(lake.root), [partition], backfilled, index.dictionary, lake.facet_order)
        return run_tasks(spark, worker, 1).changes

    partitions = plan_partitions(lake, spark.sparkContext.defaultParallelism)
    count = 0
    with translate_spark_errors(), AsyncIndexWriter(index) as writer:
        for number, changes in enumerate(map_ordered(extract_changes, partitions, spark)):
            writer.apply(f"{BATCH_PREFIX}/{number}", changes)
            count += len(changes.events) + len(changes.rejected)
            on_progress(f"Rebuilding the index from the lake: {count:,} events")
