"""The index, built anew from the events of the lake: workers reduce them to what counts, the driver merges that."""

from __future__ import annotations

from typing import Final

from pyspark.sql import SparkSession

from clew.home import Place
from clew.index.building import drafted
from clew.index.changes import Changes
from clew.index.sink import IndexSink
from clew.lake.delta import Lake
from clew.lake.raw_only import filled
from clew.lake.recorded import Part, facet_samples, recorded_parts
from clew.pipeline.faults import told_in_a_sentence
from clew.pipeline.index_thread import IndexThread
from clew.pipeline.rebuild_worker import RebuildWorker
from clew.pipeline.saying import Say, silently
from clew.pipeline.side_by_side import in_turn
from clew.pipeline.telling import told_of_parts

APP: Final = "rebuild"


def rebuild_index(spark: SparkSession, lake: Lake, place: Place, say: Say = silently) -> None:
    """Replace the index at that place, or make it: the old one is there until the new one is whole."""
    with drafted(place, lake.facet_order) as index:
        feed_index(spark, lake, index, say)


def feed_index(spark: SparkSession, lake: Lake, index: IndexSink, say: Say = silently) -> None:
    """Give an index all that the lake holds; what it knows already stays as it is."""
    # Asked first: a chunk that a backfill finishes meanwhile reaches the index by way of the backfill.
    done = filled(lake)
    index.learn(facet_samples(lake))

    def changes_of(part: Part) -> Changes:
        worker = RebuildWorker(str(lake.root), [part], done, index.dictionary, lake.facet_order)
        return told_of_parts(spark, worker, 1).changes

    parts = recorded_parts(lake, spark.sparkContext.defaultParallelism)
    count = 0
    with told_in_a_sentence(), IndexThread(index) as thread:
        for number, changes in enumerate(in_turn(changes_of, parts, spark)):
            thread.apply(f"{APP}/{number}", changes)
            count += len(changes.events) + len(changes.rejected)
            say(f"Building the index anew from the lake: {count:,} events")
